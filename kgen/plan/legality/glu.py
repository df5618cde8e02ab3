"""KG65x: gated linear units."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.legality.base import Finding, rule
from kgen.spec.glu import GluStore

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

HEAD = '[kernel]\nname = "glu"\nop = "glu"\n'
WS = "[schedule]\nwarp_specialized = true\n"
SWAPPED = HEAD + WS + "persistent = true\nswap_operands = true\n"
ATOM_ROWS = 8


@rule(
    "KG650",
    title="A gated linear unit is warp-specialised and persistent",
    reason="Two accumulators leave a warpgroup no room to load as well, and one CTA per "
    "SM loads the next tile while it applies the gate to this one.",
    source="kgen",
    bad=HEAD + WS,
    good=HEAD + WS + "persistent = true",
)
def persistent(candidate: "Candidate") -> Iterator[Finding]:
    schedule = candidate.spec.schedule
    if not candidate.activation:
        return
    for key in ("warp_specialized", "persistent"):
        if not getattr(schedule, key):
            yield Finding(f"schedule.{key}", f'{key} = false with op = "glu"', "true")


@rule(
    "KG651",
    title="A gated linear unit has the plainest persistent schedule",
    reason="Its two products are combined where an epilogue would stand. Clusters and "
    "ping-pong are schedules of a single product.",
    source="kgen",
    bad=HEAD + WS + "persistent = true\n[cluster]\nm = 2",
    good=HEAD + WS + "persistent = true",
)
def plain(candidate: "Candidate") -> Iterator[Finding]:
    if not candidate.activation:
        return
    spec = candidate.spec
    found = {
        "epilogue": bool(spec.epilogue),
        "cluster.m": spec.cluster.m > 1,
        "cluster.n": spec.cluster.n > 1,
        "schedule.ping_pong": spec.schedule.ping_pong,
    }
    for key, is_set in found.items():
        if is_set:
            yield Finding(key, f'{key} is set with op = "glu"', "without this key")


@rule(
    "KG652",
    title="The operands of a gated linear unit have 16 bits",
    reason="Its kernels are proven for float16 and bfloat16 alone.",
    source="kgen",
    bad=HEAD
    + 'layout = "nt"\n'
    + WS
    + 'persistent = true\n[dtypes]\na = "float32"\nb = "float32"',
    good=HEAD + WS + 'persistent = true\n[dtypes]\na = "float16"\nb = "float16"',
)
def sixteen_bits(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.activation and candidate.itemsize != 2:
        yield Finding(
            "dtypes.a",
            f'dtypes.a = "{candidate.spec.dtypes.a}" with op = "glu"',
            '"float16", "bfloat16"',
        )


@rule(
    "KG653",
    title="The steps whose gate comes first fit in the ring",
    reason="Their slots are kept until the products with the second weight have read "
    "them. With more steps than slots the warpgroups would wait for loads that wait for "
    "them.",
    source="kgen",
    bad=HEAD
    + WS
    + "persistent = true\n[pipeline]\nmax_concurrent_steps = 2\ngate_first = 3",
    good=HEAD
    + WS
    + "persistent = true\n[pipeline]\nmax_concurrent_steps = 3\ngate_first = 3",
)
def gate_first(candidate: "Candidate") -> Iterator[Finding]:
    steps, slots = candidate.gate_first, candidate.max_concurrent_steps
    if steps > slots:
        yield Finding(
            "pipeline.gate_first",
            f"gate_first = {steps} with a ring of {slots} slots",
            f"at most {slots}",
        )


@rule(
    "KG654",
    title="Rows of a piece are whole atoms of SMEM, of a transposed output",
    reason="A swizzled layout has atoms of 8 rows. Only with swapped operands rows of "
    "the output are columns of the accumulator, of which it can be cut.",
    source="Mosaic GPU, WGMMA layout",
    bad=SWAPPED + "[store]\nm = 36",
    good=SWAPPED + "[store]\nm = 40",
)
def rows_of_pieces(candidate: "Candidate") -> Iterator[Finding]:
    store, tile_m = candidate.spec.store, candidate.spec.tile.m
    if not isinstance(store, GluStore) or store.m == "auto":
        return
    if not candidate.swap_operands:
        yield Finding(
            "store.m",
            f"store.m = {store.m} without swap_operands = true",
            "without this key",
        )
    elif store.m % ATOM_ROWS or store.m > tile_m:
        yield Finding(
            "store.m",
            f"store.m = {store.m} is not a multiple of {ATOM_ROWS} up to tile.m = {tile_m}",
            f"multiples of {ATOM_ROWS} up to {tile_m}",
            follows=("tile.m",),
        )


@rule(
    "KG655",
    title="A transposed gated linear unit stores all its columns at once",
    reason="Its pieces are some rows each, of all columns of a warpgroup: of those a "
    "warpgroup has few.",
    source="kgen",
    bad=SWAPPED + "[tile]\nm = 64\nn = 256\n[store]\nn = 64",
    good=SWAPPED + "[tile]\nm = 64\nn = 256\n[store]\nm = 32",
)
def columns_of_pieces(candidate: "Candidate") -> Iterator[Finding]:
    if not (candidate.activation and candidate.swap_operands):
        return
    if candidate.store_n != candidate.wg_n:
        yield Finding(
            "store.n",
            f"store.n = {candidate.store_n} with swap_operands = true",
            "without this key",
            "store.m is for pieces of some rows; see `kgen rule KG655`",
        )
