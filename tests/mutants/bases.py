"""The right kernels: rendered ones of every schedule, and a few written by hand.

Tiles are small, so that a mutant is simulated in a second. No two sizes of a request
are alike, there are two or three tiles along m and n, and more steps than slots.
"""

import dataclasses
import functools
import tempfile
from pathlib import Path

from kgen.emit.render import render
from kgen.epilogue.steps import to_json
from kgen.pipeline import request_of
from kgen.plan import make_plan
from kgen.plan.model import MatmulPlan
from kgen.spec.load import load_file
from kgen.verify.request import Request, RequestCase

from .model import Base

KERNELS = Path(__file__).parent / "kernels"

SMALL = "[tile]\nm = 64\nn = 64\n"
RING = "[pipeline]\nmax_concurrent_steps = {}\n"
DRAINED = RING + "delay_release = 0\nwgmma_in_flight = 0\n"
WS = "[schedule]\nwarp_specialized = true\n"
CALL = 'entry_point = "pallas_call"\n'
FP16 = '[dtypes]\na = "float16"\nb = "float16"\n'
FLOAT8 = '[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
PROMOTED = RING.format(2) + "promote = true\n"
PIECES = "[store]\nn = 32\nslots = 2\n"
ONE_WG = WS + "num_compute_wgs = 1\n"
CHAIN = 4 * '[[epilogue]]\nop = "{}"\n'
PERSISTENT = RING.format(2) + WS + "persistent = true\n"
BIAS = '[[epilogue]]\nop = "bias"\n'
BATCH = "[shapes]\nbatch = true\n"

RENDERED = {
    # Name: more of [kernel], the other tables, tiles along m, n and k.
    "pipelined": ("", SMALL + RING.format(3), (2, 3, 6)),
    "pipelined_drained": ("", SMALL + DRAINED.format(3), (2, 3, 6)),
    "pipelined_pieces": (
        "",
        "[tile]\nm = 64\nn = 128\n" + RING.format(2) + PIECES,
        (3, 2, 5),
    ),
    "pipelined_fp16": ("", FP16 + SMALL + RING.format(3), (2, 3, 6)),
    "pipelined_float32_out": (
        "",
        '[dtypes]\nout = "float32"\n' + SMALL + RING.format(2),
        (2, 3, 5),
    ),
    "pipelined_nt": (
        'layout = "nt"\n',
        SMALL + RING.format(2),
        (2, 3, 5),
    ),
    "pipelined_tt_column": (
        'layout = "tt"\nout_order = "column"\n',
        SMALL + RING.format(2),
        (2, 3, 5),
    ),
    "pipelined_plain_rows": (
        'layout = "nt"\n',
        "[tile]\nm = 64\nn = 24\n" + RING.format(2),
        (2, 3, 5),
    ),
    "warp_specialized": (
        "",
        "[tile]\nm = 128\nn = 64\n" + RING.format(2) + WS,
        (1, 3, 5),
    ),
    "warp_specialized_drained": (
        "",
        "[tile]\nm = 128\nn = 64\n" + DRAINED.format(2) + WS,
        (1, 3, 5),
    ),
    "warp_specialized_pieces": (
        "",
        "[tile]\nm = 128\nn = 128\n" + RING.format(2) + WS + PIECES,
        (1, 2, 5),
    ),
    "warp_specialized_split_n": (
        "",
        "[tile]\nm = 64\nn = 128\n" + RING.format(2) + WS + 'split = "n"\n',
        (3, 1, 5),
    ),
    "pallas_call": (CALL, SMALL + RING.format(3), (2, 3, 6)),
    "pallas_call_drained": (CALL, SMALL + DRAINED.format(3), (2, 3, 6)),
    "persistent_ws": ("", "[tile]\nm = 128\nn = 64\n" + PERSISTENT, (1, 3, 4)),
    # Not every slot was used as often when a tile ends.
    "persistent_ws_pieces": (
        "",
        "[tile]\nm = 64\nn = 128\n"
        + PERSISTENT
        + "num_compute_wgs = 1\n[store]\nn = 32\nslots = 3\n",
        (3, 1, 4),
    ),
    # Steps are no multiple of the slots: the second tile begins in the midst. Of five
    # tiles of a CTA each warpgroup waits for its turn twice.
    "ping_pong": (
        "",
        "[tile]\nm = 64\nn = 64\n"
        + RING.format(2)
        + WS
        + "persistent = true\nping_pong = true\n",
        (2, 5, 3),
    ),
    "persistent_cluster": (
        "",
        SMALL + PERSISTENT + "num_compute_wgs = 1\n[cluster]\nn = 2\n",
        (3, 2, 4),
    ),
    # Sizes are given below.
    "any_edge": ("", '[shapes]\nedge = "any"\n' + SMALL + RING.format(2), None),
    "any_edge_pieces": (
        "",
        '[shapes]\nedge = "any"\n[tile]\nm = 64\nn = 128\n' + RING.format(2) + PIECES,
        None,
    ),
    "batched": ("", BATCH + SMALL + RING.format(2), (2, 1, 3)),
    "batched_a_alone": ("", BATCH + SMALL + RING.format(2), (2, 1, 3)),
    "batched_mixed": ("", BATCH + SMALL + RING.format(2), (2, 1, 3)),
    "batched_chain": (
        "",
        BATCH + SMALL + RING.format(2) + BIAS,
        (2, 1, 3),
    ),
    "batched_persistent": (
        "",
        BATCH + SMALL + PERSISTENT + "num_compute_wgs = 1\n",
        (3, 1, 4),
    ),
    "batched_ping_pong": (
        "",
        BATCH + SMALL + PERSISTENT + "ping_pong = true\n",
        (3, 1, 3),
    ),
    "cluster": (
        "",
        SMALL + DRAINED.format(2) + ONE_WG + "[cluster]\nm = 2\n",
        (2, 3, 5),
    ),
    "gradients": ("autodiff = true\n", SMALL + RING.format(2), (2, 2, 2)),
    "gradients_chain": (
        "autodiff = true\n",
        '[dtypes]\nout = "float32"\n'
        + SMALL
        + RING.format(2)
        + BIAS
        + '[[epilogue]]\nop = "relu"\n',
        (1, 1, 1),
    ),
    "split_k": ("", SMALL + RING.format(2) + ONE_WG + "split_k = 2\n", (2, 1, 6)),
    "promoted": (
        'layout = "nt"\n',
        FLOAT8 + SMALL + PROMOTED + ONE_WG,
        (2, 3, 5),
    ),
    "promoted_persistent": (
        'layout = "nt"\n',
        FLOAT8 + "[tile]\nm = 128\nn = 64\n" + PROMOTED + WS + "persistent = true\n",
        (1, 3, 4),
    ),
    "block_scaled": (
        'layout = "nt"\n',
        FLOAT8 + RING.format(2) + "[scales]\nblock = 128\n" + WS,
        (2, 3, 3),
    ),
    "swapped": (
        "",
        "[tile]\nm = 64\nn = 128\n" + RING.format(2) + WS + "swap_operands = true\n",
        (1, 2, 3),
    ),
    "chain_linear": (
        "",
        "[tile]\nm = 128\nn = 128\n"
        + RING.format(2)
        + WS
        + CHAIN.format("scale", "bias", "residual", "relu"),
        (1, 2, 5),
    ),
    "chain_any": (
        "",
        '[shapes]\nedge = "any"\n'
        + SMALL
        + RING.format(2)
        + CHAIN.format("bias", "residual", "relu", "").rpartition("[[")[0],
        None,
    ),
    "chain_saved": (
        "",
        "[tile]\nm = 64\nn = 128\n"
        + PERSISTENT
        + "num_compute_wgs = 1\n"
        + CHAIN.format("bias", "save", "gelu", "relu").rpartition("[[")[0],
        (3, 1, 4),
    ),
}
# The ones with gradients: squares, so that no shape tells one product from another.
DIFFERENTIATED = {"gradients", "gradients_chain"}
GATED = {
    # The same, of gated linear units.
    "glu_silu": (
        "",
        "[tile]\nm = 64\nn = 64\n"
        + PERSISTENT
        + "num_compute_wgs = 1\n[store]\nn = 32\nslots = 2\n",
        (3, 1, 4),
    ),
    "glu_gelu": (
        'activation = "gelu"\nlayout = "nt"\n',
        SMALL + PERSISTENT + "num_compute_wgs = 1\n",
        (3, 1, 4),
    ),
    "glu_gate_first": (
        "",
        '[shapes]\nedge = "any"\n[tile]\nm = 24\nn = 64\n[pipeline]\n'
        "max_concurrent_steps = 3\ngate_first = 2\n"
        + ONE_WG
        + "persistent = true\nswap_operands = true\n[store]\nm = 16\n",
        None,
    ),
}
# Two tiles along m, three along n, five steps, and none of them whole.
RAGGED = (67, 131, 261)
# All that is stored lies in the first of two pieces.
NARROW = (67, 24, 261)
# What the persistent ones are told. Of two CTAs one has a single tile.
NUM_SMS = {
    "persistent_ws": 2,
    "ping_pong": 2,
    "persistent_ws_pieces": 1,
    "persistent_cluster": 2,
    "chain_saved": 2,
    "glu_silu": 2,
    "glu_gelu": 2,
    "glu_gate_first": 2,
    "promoted_persistent": 2,
    "batched_persistent": 2,
    "batched_ping_pong": 2,
}
# Leading dimensions of A and B; none of any other.
LEADING = {
    "batched": ((2,), (2,)),
    "batched_a_alone": ((2,), ()),
    "batched_mixed": ((2, 1), (2,)),
    "batched_chain": ((2,), (2,)),
    "batched_persistent": ((2,), (2,)),
    "batched_ping_pong": ((2,), (2,)),
}
WRITTEN = {
    # The file's name, which is the schedule, and m, n and k.
    "ring": (256, 128, 384),
    "persistent": (192, 128, 256),
    "two_halves": (128, 44, 512),
}


NAMES = (*RENDERED, *GATED, *WRITTEN)
"""Names of the kernels."""


@functools.cache
def base(name: str) -> Base:
    """Returns a kernel."""
    if name in RENDERED:
        return _rendered(name, *RENDERED[name])
    if name in GATED:
        return _gated(name, *GATED[name])
    return _written(name, *WRITTEN[name])


def _rendered(
    name: str, kernel: str, tables: str, tiles: tuple[int, int, int] | None
) -> Base:
    plan = _plan(name, f'[kernel]\nname = "{name}"\nop = "matmul"\n{kernel}{tables}')
    sizes = (plan.tile_m, plan.tile_n, plan.tile_k)
    m, n, k = (
        (NARROW if name == "any_edge_pieces" else RAGGED)
        if tiles is None
        else (size * count for size, count in zip(sizes, tiles, strict=True))
    )
    source = render(plan, verified=False, prove=False).source
    request = _request(
        name,
        source,
        (m, n, k),
        layout=plan.layout,
        out_order=plan.out_order,
        dtype=plan.operand_dtype,
        promoted=plan.tile_k * plan.promote,
        scale_block=plan.scale_block or 0,
        out_dtype=plan.out_dtype,
        epilogue=to_json(plan.epilogue),
    )
    return Base(name, _schedule(plan), source, request)


def _gated(
    name: str, kernel: str, tables: str, tiles: tuple[int, int, int] | None
) -> Base:
    plan = _plan(name, f'[kernel]\nname = "{name}"\nop = "glu"\n{kernel}{tables}')
    rendered = render(plan, verified=False, prove=False)
    sizes = RAGGED
    if tiles is not None:
        m, n, k = (unit * count for unit, count in zip(plan.units, tiles, strict=True))
        sizes = m, n, k
    m, n, k = sizes
    case = RequestCase(m=m, n=n, k=k, num_sms=NUM_SMS[name])
    request = dataclasses.replace(request_of(plan, rendered), cases=(case,))
    return Base(name, "gated", rendered.source, request)


def _schedule(plan: MatmulPlan) -> str:
    """Returns what the page calls a plan's schedule."""
    if plan.epilogue or plan.batched:
        return "batched" if plan.batched else "epilogue"
    if plan.ping_pong:
        return "ping_pong"
    if plan.persistent:
        return "persistent_cluster" if plan.cluster > 1 else "persistent_ws"
    if plan.cluster > 1:
        return "cluster"
    if plan.split_k > 1:
        return "split_k"
    return "swapped" if plan.swap_operands else plan.schedule


def _plan(name: str, text: str) -> MatmulPlan:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, f"{name}.toml")
        path.write_text(text, encoding="utf-8")
        (spec,) = load_file(path)
        return make_plan(spec)


def _written(name: str, m: int, n: int, k: int) -> Base:
    source = (KERNELS / f"{name}.py").read_text(encoding="utf-8")
    return Base(name, name, source, _request(name, source, (m, n, k)))


def _request(
    name: str,
    source: str,
    sizes: tuple[int, int, int],
    *,
    layout: str = "nn",
    out_order: str = "row",
    dtype: str = "bfloat16",
    out_dtype: str = "bfloat16",
    epilogue: str = "[]",
    promoted: int = 0,
    scale_block: int = 0,
) -> Request:
    m, n, k = sizes
    a_batch, b_batch = LEADING.get(name, ((), ()))
    case = RequestCase(
        m=m,
        n=n,
        k=k,
        num_sms=NUM_SMS.get(name),
        a_batch=a_batch,
        b_batch=b_batch,
        differentiate=name in DIFFERENTIATED,
    )
    return Request(
        name=name,
        source=source,
        function="matmul",
        op="matmul",
        arch="sm_90a",
        layout=layout,
        out_order=out_order,
        operand_dtype=dtype,
        out_dtype=out_dtype,
        epilogue=epilogue,
        promoted=promoted,
        scale_block=scale_block,
        cases=(case,),
    )
