"""KG67x: batches."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.legality.base import Finding, rule

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

BATCH = "[shapes]\nbatch = true\n"
WS = "[schedule]\nwarp_specialized = true\n"
GLU = '[kernel]\nname = "glu"\nop = "glu"\n' + WS + "persistent = true\n"


@rule(
    "KG670",
    title="A gated linear unit has no batch",
    reason="x is flattened to [m, k] before the call, which copies nothing: all rows "
    "share both weights.",
    source="kgen",
    bad=GLU + BATCH,
    good=GLU,
)
def no_glu(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.batched and candidate.activation:
        yield Finding("shapes.batch", 'batch = true with op = "glu"', "false")


@rule(
    "KG671",
    title="K is not split where there is a batch",
    reason="K is split where there are fewer output tiles than SMs; the matrices of a "
    "batch multiply the tiles.",
    source="kgen",
    bad=BATCH + WS + "split_k = 2",
    good=BATCH + WS,
)
def no_split_k(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.batched and candidate.split_k > 1:
        yield Finding(
            "schedule.split_k",
            f"split_k = {candidate.split_k} with shapes.batch = true",
            "one of the two",
        )


@rule(
    "KG673",
    title="Blocks of a batch are not scaled",
    reason="A scale belongs to a block of one matrix. In a batch every matrix would "
    "have scales of its own, or share them where it is shared.",
    source="kgen",
    bad='[kernel]\nlayout = "nt"\n[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
    "[scales]\nblock = 128\n" + BATCH + WS,
    good='[kernel]\nlayout = "nt"\n[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
    "[scales]\nblock = 128\n" + WS,
)
def no_scales(candidate: "Candidate") -> Iterator[Finding]:
    block = candidate.spec.scales.block
    if candidate.batched and block is not None:
        yield Finding(
            "shapes.batch",
            f"batch = true with scales.block = {block}",
            "one of the two",
        )


@rule(
    "KG674",
    title="test.batch belongs to test.shapes of a kernel with a batch",
    reason="It says how many matrices are multiplied at these sizes. Without a batch or "
    "without sizes it would have no effect.",
    source="kgen",
    bad="[test]\nshapes = [[512, 512, 512]]\nbatch = [64]",
    good=BATCH + "[test]\nshapes = [[512, 512, 512]]\nbatch = [64]",
)
def tested_batch(candidate: "Candidate") -> Iterator[Finding]:
    test = candidate.spec.test
    if test.batch and not candidate.batched:
        yield Finding(
            "test.batch",
            f"test.batch = {[*test.batch]}, but shapes.batch is false",
            "shapes.batch = true, or without this key",
        )
    elif test.batch and not test.shapes:
        yield Finding(
            "test.batch",
            f"test.batch = {[*test.batch]} without test.shapes",
            "test.shapes as well, or without this key",
        )
