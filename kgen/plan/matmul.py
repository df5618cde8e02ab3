"""The planner of `op = "matmul"`."""

import dataclasses
import functools
import math

from kgen import cases
from kgen.arch import ARCHS, Arch
from kgen.gradients import gradients as gradients_of
from kgen.layouts import COLUMN, is_transposed
from kgen.plan import epilogue, gradients
from kgen.plan.candidate import NO_SPLIT, Candidate, share
from kgen.plan.dtypes import ITEMSIZE, default_out
from kgen.plan.model import Case, Layout, MatmulPlan, Raster, StandaloneTest
from kgen.spec.glu import GluStore
from kgen.spec.model import Schedule, Spec, Transform, Transforms
from kgen.spec.source import SourcedSpec

DEFAULT_COMPUTE_WGS = 2
DEFAULT_MEMORY_REGISTERS = 40
DIMENSION_SEMANTICS = ("parallel", "parallel", "sequential")
# Tiles of the size that a module is tested at on a GPU if the spec names none.
GPU_TILES = (17, 5, 9)
GPU_BATCH = (3,)
# Steps of all CTAs together that are simulated within seconds.
MAX_SIMULATED_STEPS = 64
DEFAULT_STAGES = 4
DEFAULT_RASTER_WIDTH = 8
WGMMA_M = 64
ATOM_ROWS = 8
EPILOGUE_COLUMNS = 64
"""Columns of a piece that an epilogue works on, if there are more."""


def resolve(source: SourcedSpec) -> Candidate:
    """Fills in whatever the spec leaves to kgen."""
    spec = source.spec
    assert isinstance(spec, Spec), "the spec of a matmul"
    schedule, arch = spec.schedule, ARCHS[spec.kernel.arch]
    itemsize = ITEMSIZE[spec.dtypes.a]
    warp_specialized = schedule.warp_specialized
    wgs = (schedule.num_compute_wgs or DEFAULT_COMPUTE_WGS) if warp_specialized else 1
    split = schedule.split or _default_split(schedule)
    tile_k = spec.tile.k or arch.swizzles[0] // itemsize
    wg_m = share(spec.tile.m, wgs, split == "m")
    wg_n = share(spec.tile.n, wgs, split == "n")
    rows = _operand_rows(spec, tile_k, wg_m, wg_n)
    auto = _widest_swizzle(arch, [row * itemsize for row in rows]) or arch.swizzles[-1]
    common = _asked_swizzle(spec.transforms) or auto
    candidate = Candidate(
        source=source,
        arch=arch,
        schedule=_schedule(spec),
        layout=spec.kernel.layout,
        out_order=spec.kernel.out_order,
        tile_k=tile_k,
        raster=_raster(spec),
        max_concurrent_steps=1,
        delay_release=_released(spec, spec.pipeline.delay_release),
        wgmma_in_flight=_released(spec, spec.pipeline.wgmma_in_flight),
        num_compute_wgs=wgs,
        split=split,
        memory_registers=(
            (schedule.memory_registers or DEFAULT_MEMORY_REGISTERS)
            if warp_specialized
            else None
        ),
        a_layout=_layout(spec.transforms.a, common, itemsize),
        b_layout=_layout(spec.transforms.b, common, itemsize),
        out_dtype=spec.dtypes.out or default_out(spec.dtypes.a),
        out_layout=Layout(swizzle=None, tiling=None),
        store_m=wg_m,
        store_n=wg_n,
        store_slots=1,
        epilogue=epilogue.resolve(
            spec.epilogue, spec.dtypes.out or default_out(spec.dtypes.a)
        ),
    )
    return _with_out_layout(_with_stages(candidate))


def finish(candidate: Candidate, *, may_differentiate: bool) -> MatmulPlan:
    """Returns the plan of a candidate that broke no rule.

    Args:
      candidate: The candidate.
      may_differentiate: Whether its spec could ask for gradients.
    """
    spec = candidate.spec
    return MatmulPlan(
        name=spec.kernel.name,
        doc=spec.kernel.doc,
        spec_path=candidate.source.place,
        spec_digest=candidate.source.digest,
        test_digest=candidate.source.test_digest,
        arch=candidate.arch.name,
        schedule=candidate.schedule,
        persistent=spec.schedule.persistent,
        ping_pong=candidate.ping_pong,
        split_k=candidate.split_k,
        swap_operands=candidate.swap_operands,
        cluster_m=spec.cluster.m,
        cluster_n=spec.cluster.n,
        raster=candidate.raster,
        layout=candidate.layout,
        out_order=candidate.out_order,
        operand_dtype=spec.dtypes.a,
        b_dtype=spec.dtypes.b,
        out_dtype=candidate.out_dtype,
        edge=spec.shapes.edge,
        tile_m=spec.tile.m,
        tile_n=spec.tile.n,
        tile_k=candidate.tile_k,
        max_concurrent_steps=candidate.max_concurrent_steps,
        delay_release=candidate.delay_release,
        wgmma_in_flight=candidate.wgmma_in_flight,
        promote=candidate.promote,
        num_compute_wgs=candidate.num_compute_wgs,
        split=candidate.split,
        wg_m=candidate.wg_m,
        wg_n=candidate.wg_n,
        memory_registers=candidate.memory_registers,
        operand_layout=candidate.a_layout,
        out_layout=candidate.out_layout,
        store_m=candidate.store_m,
        store_n=candidate.store_n,
        store_slots=candidate.store_slots,
        smem=candidate.smem(),
        registers=candidate.registers,
        cases=_cases(candidate),
        gpu_shapes=_gpu_shapes(candidate),
        test=StandaloneTest(
            inputs=spec.test.inputs,
            exact=spec.test.exact,
            rtol=spec.test.rtol,
            atol=spec.test.atol,
            gpu_marker=spec.test.gpu_marker,
            gradients=candidate.autodiff and spec.test.gradients is not False,
        ),
        allow=spec.verify.allow,
        epilogue=candidate.epilogue,
        scale_block=spec.scales.block,
        activation=candidate.activation,
        gate_first=candidate.gate_first,
        batched=candidate.batched,
        gpu_batch=_gpu_batch(candidate),
        torch=candidate.torch,
        autodiff=candidate.autodiff,
        may_differentiate=may_differentiate,
    )


def _gpu_shapes(candidate: Candidate) -> tuple[tuple[int, int, int], ...]:
    shapes = [(m, n, k) for m, n, k in candidate.spec.test.shapes]
    if shapes:
        return tuple(shapes)
    whole = _size(candidate, GPU_TILES)
    return (cases.ragged(whole) if candidate.any_edge else whole,)


def _gpu_batch(candidate: Candidate) -> tuple[int, ...]:
    if candidate.spec.test.shapes:
        return candidate.spec.test.batch
    return GPU_BATCH if candidate.batched else ()


def _size(candidate: Candidate, counts: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns the size (m, n, k) of so many blocks along each dimension."""
    m, n, k = candidate.blocks
    return counts[0] * m, counts[1] * n, counts[2] * k


def _schedule(spec: Spec) -> str:
    if spec.kernel.entry_point == "pallas_call":
        return "pallas_call"
    return "warp_specialized" if spec.schedule.warp_specialized else "pipelined"


def _default_split(schedule: Schedule) -> str:
    if schedule.ping_pong:
        return NO_SPLIT
    return "n" if schedule.swap_operands else "m"


def _operand_rows(spec: Spec, tile_k: int, wg_m: int, wg_n: int) -> list[int]:
    """Returns what a swizzle must divide: a step of K, and what is not K-major."""
    layouts: list[str] = [spec.kernel.layout]
    if spec.kernel.autodiff:
        layouts += [gradient.layout for gradient in gradients_of(spec.kernel.layout)]
    rows = [tile_k]
    rows += [wg_m for layout in layouts if is_transposed(layout)[0]]
    rows += [wg_n for layout in layouts if not is_transposed(layout)[1]]
    return rows


def _released(spec: Spec, asked: int | None) -> int:
    """Returns a delay in steps: a pipeline of pipelines can have none.

    Nor has one anything to delay if every step waits for its sum.
    """
    promotes = spec.pipeline.promote or spec.scales.block is not None
    at_once = (spec.schedule.persistent or promotes) and not spec.schedule.ping_pong
    return int(not at_once) if asked is None else asked


def _raster(spec: Spec) -> Raster | None:
    asked = spec.raster
    if not (spec.schedule.persistent or asked.order or asked.width):
        return None
    return Raster(order=asked.order or "m", width=asked.width or DEFAULT_RASTER_WIDTH)


def _widest_swizzle(arch: Arch, row_bytes: list[int]) -> int | None:
    """Returns the widest swizzle that divides rows of all these sizes."""
    fitting = (s for s in arch.swizzles if all(size % s == 0 for size in row_bytes))
    return next(fitting, None)


def _asked_swizzle(transforms: Transforms) -> int | None:
    """Returns the swizzle of both operands if the spec tells one, be it for one."""
    asked = (transforms.swizzle, transforms.a.swizzle, transforms.b.swizzle)
    return next((swizzle for swizzle in asked if swizzle != "auto"), None)


def _layout(transform: Transform, common: int, itemsize: int) -> Layout:
    """Returns an operand's layout; `common` is the swizzle of both operands."""
    swizzle = common if transform.swizzle == "auto" else transform.swizzle
    tiling = transform.tiling
    if tiling == "auto":
        tiling = (8, swizzle // itemsize)
    return Layout(swizzle=swizzle, tiling=tiling)  # type: ignore[arg-type]


def _with_stages(candidate: Candidate) -> Candidate:
    """Decides the ring's slots, and with them how the output leaves."""
    wanted = candidate.spec.pipeline.max_concurrent_steps
    fewest = max(candidate.delay_release, candidate.wgmma_in_flight) + 1
    most = max(DEFAULT_STAGES, fewest)
    options = [
        _with_store(dataclasses.replace(candidate, max_concurrent_steps=stages))
        for stages in ([wanted] if wanted else range(most, fewest - 1, -1))
    ]
    return next(filter(_fits, options), options[-1])


def _with_store(candidate: Candidate) -> Candidate:
    """Decides in how many pieces the output leaves: whole if it fits in SMEM."""
    if candidate.activation and candidate.swap_operands:
        return _with_store_of_rows(candidate)
    store, wg_n = candidate.spec.store, candidate.wg_n
    if store.n != "auto":
        widths = [store.n]
    elif candidate.schedule == "pallas_call":
        widths = [wg_n]
    elif candidate.activation or (candidate.epilogue and candidate.split_k == 1):
        # What a step makes of a piece lies in registers beside the accumulator.
        widths = [w for w in _piece_widths(candidate) if w <= EPILOGUE_COLUMNS]
        widths = widths if wg_n > EPILOGUE_COLUMNS and widths else [wg_n]
    else:
        widths = [wg_n, *_piece_widths(candidate)]
    options = [
        dataclasses.replace(
            candidate, store_n=width, store_slots=_store_slots(candidate, width)
        )
        for width in widths
    ]
    return next(filter(_fits, options), options[0])


def _with_store_of_rows(candidate: Candidate) -> Candidate:
    """Decides the rows of a piece; all columns are stored at once."""
    store, wg_m = candidate.spec.store, candidate.wg_m
    asked = store.m if isinstance(store, GluStore) else "auto"
    if asked == "auto":
        parts = range(2, -(-wg_m // ATOM_ROWS) + 1)
        atoms = (-(-wg_m // (count * ATOM_ROWS)) for count in parts)
        heights = [wg_m, *(count * ATOM_ROWS for count in atoms)]
    else:
        heights = [asked]
    slots = 1 if store.slots == "auto" else store.slots
    width = candidate.wg_n if store.n == "auto" else store.n
    options = [
        dataclasses.replace(candidate, store_m=height, store_n=width, store_slots=slots)
        for height in heights
    ]
    return next(filter(_fits, options), options[-1])


def _piece_widths(candidate: Candidate) -> list[int]:
    """Returns the swizzled widths that divide a warpgroup's columns, best first.

    In column order so many columns are rows in SMEM, of which an atom has 8.
    """
    arch, wg_n, itemsize = candidate.arch, candidate.wg_n, candidate.out_itemsize
    in_rows = candidate.out_order == COLUMN
    swizzles = {
        width: _widest_swizzle(
            arch, [(candidate.wg_m if in_rows else width) * itemsize]
        )
        for width in range(1, wg_n)
        if wg_n % width == 0 and not (in_rows and width % ATOM_ROWS)
    }
    widths = [width for width, swizzle in swizzles.items() if swizzle]
    if candidate.swap_operands:
        widths = [width for width in widths if width % WGMMA_M == 0]
    return sorted(widths, key=lambda width: (swizzles[width] or 0, width), reverse=True)


def _store_slots(candidate: Candidate, width: int) -> int:
    slots = candidate.spec.store.slots
    if slots == "auto":
        # Two pieces alternate: one is written while the other leaves.
        return 2 if width < candidate.wg_n or candidate.outputs > 1 else 1
    return slots


def _fits(candidate: Candidate) -> bool:
    smem = candidate.smem()
    return smem.total <= smem.limit


def _with_out_layout(candidate: Candidate) -> Candidate:
    """Gives the output the widest swizzle that its rows in SMEM allow."""
    transform, itemsize = candidate.spec.transforms.out, candidate.out_itemsize
    row_bytes = candidate.out_piece[1] * itemsize
    auto = _widest_swizzle(candidate.arch, [row_bytes])
    if auto is None and transform == Transform():
        return candidate  # Plain rows.
    layout = _layout(transform, auto or candidate.arch.swizzles[-1], itemsize)
    return dataclasses.replace(candidate, out_layout=layout)


def _cases(candidate: Candidate) -> tuple[Case, ...]:
    counts = cases.tile_counts(*candidate.blocks)
    stages = candidate.max_concurrent_steps
    case = functools.partial(_case, candidate)
    if candidate.batched:
        small = [
            case(
                *each.size,
                simulate=True,
                num_sms=each.ctas * candidate.cluster if each.ctas else None,
                a_batch=each.a_batch,
                b_batch=each.b_batch,
            )
            for each in cases.batches(
                candidate.blocks,
                stages,
                persistent=candidate.spec.schedule.persistent,
                any_edge=candidate.any_edge,
            )
        ]
    elif candidate.any_edge:
        small = [
            case(*size, simulate=True, num_sms=_sms(candidate, size, ctas))
            for size, ctas in cases.edges(candidate.blocks, stages)
        ]
    elif candidate.spec.schedule.persistent:
        small = [
            case(
                *_size(candidate, each),
                simulate=True,
                num_sms=ctas * candidate.cluster,
            )
            for each, ctas in cases.persistent(counts, stages)
        ]
    else:
        small = [
            case(*_size(candidate, each), simulate=True)
            for each in (*counts, *cases.once_around(stages))
        ]
    asked = [
        case(
            m,
            n,
            k,
            simulate=_steps(candidate, m, n, k) <= MAX_SIMULATED_STEPS,
            a_batch=candidate.spec.test.batch,
            b_batch=candidate.spec.test.batch,
        )
        for m, n, k in candidate.spec.test.shapes
    ]
    return (*small, *asked, *gradients.cases(candidate))


def _sms(candidate: Candidate, size: tuple[int, int, int], ctas: int) -> int | None:
    """Returns the SMs of so many clusters, at the most one for each of the tiles."""
    if not candidate.spec.schedule.persistent:
        return None
    blocks = zip(size[:2], candidate.blocks[:2], strict=True)
    tiles = math.prod(-(-length // block) for length, block in blocks)
    return min(ctas, tiles) * candidate.cluster


def _case(
    candidate: Candidate,
    m: int,
    n: int,
    k: int,
    *,
    simulate: bool,
    num_sms: int | None = None,
    a_batch: tuple[int, ...] = (),
    b_batch: tuple[int, ...] = (),
) -> Case:
    smem = candidate.smem(num_steps=-(-k // candidate.blocks[2]))
    return Case(
        m=m,
        n=n,
        k=k,
        smem_bytes=smem.total,
        simulate=simulate,
        num_sms=num_sms,
        a_batch=a_batch,
        b_batch=b_batch,
    )


def _steps(candidate: Candidate, m: int, n: int, k: int) -> int:
    """Returns the pipeline steps of all CTAs together."""
    tile = candidate.spec.tile
    sizes = ((m, tile.m), (n, tile.n), (k, candidate.tile_k))
    matrices = math.prod(candidate.spec.test.batch)
    return matrices * math.prod(-(-size // of_tile) for size, of_tile in sizes)
