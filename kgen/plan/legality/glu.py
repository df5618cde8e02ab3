"""KG65x: gated linear units."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.legality.base import Finding, rule

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

HEAD = '[kernel]\nname = "glu"\nop = "glu"\n'
WS = "[schedule]\nwarp_specialized = true\n"


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
    reason="Its two products are combined where an epilogue would stand. The other "
    "schedules are those of a single product.",
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
