"""KG63x: sums that are promoted from the tensor cores to registers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.float8 import FLOAT8
from kgen.plan.legality.base import Finding, rule

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

OF_FLOAT8 = (
    '[kernel]\nlayout = "nt"\n[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
)
WS = "[schedule]\nwarp_specialized = true\n"
PROMOTED = "[pipeline]\npromote = true\n"


SCALED = "[scales]\nblock = 128\n"


def _asked(candidate: "Candidate") -> Iterator[tuple[str, str]]:
    """Yields the keys that ask for promoted sums, each with its value."""
    if candidate.spec.pipeline.promote:
        yield "pipeline.promote", "promote = true"
    if candidate.spec.scales.block is not None:
        yield "scales.block", f"scales.block = {candidate.spec.scales.block}"


@rule(
    "KG630",
    title="Sums are promoted in a warp-specialised kernel without ping-pong",
    reason="While one warpgroup adds the sum of a step to that in registers, another "
    "one multiplies. Where a single one does, the tensor cores would be idle.",
    source="kgen",
    bad=OF_FLOAT8 + PROMOTED,
    good=OF_FLOAT8 + PROMOTED + WS,
)
def warp_specialized(candidate: "Candidate") -> Iterator[Finding]:
    schedule = candidate.spec.schedule
    for key, asked in _asked(candidate):
        if not schedule.warp_specialized:
            yield Finding(
                key,
                f"{asked}, but warp_specialized is false",
                "warp_specialized = true, or without this key",
            )
        elif schedule.ping_pong:
            yield Finding(key, f"{asked} with ping_pong = true", "one of the two")


@rule(
    "KG631",
    title="Sums of 8-bit floats alone are promoted",
    reason="The tensor cores add products of wider operands with more bits: promoting "
    "their sums would take time and registers for nothing.",
    source="DeepSeek-V3, Technical Report, section 3.5.2",
    bad=PROMOTED + WS,
    good=OF_FLOAT8 + PROMOTED + WS,
)
def only_float8(candidate: "Candidate") -> Iterator[Finding]:
    dtype = candidate.spec.dtypes.a
    if dtype in FLOAT8:
        return
    for key, asked in _asked(candidate):
        yield Finding(key, f"{asked} with {dtype}", ", ".join(FLOAT8))


@rule(
    "KG632",
    title="No wgmma stays in flight where sums are promoted",
    reason="The sum of a step is read in that step, which waits for its wgmma.",
    source="JAX, plgpu.ACC: reading it waits",
    bad=OF_FLOAT8 + PROMOTED + "wgmma_in_flight = 1\ndelay_release = 1\n" + WS,
    good=OF_FLOAT8 + PROMOTED + WS,
)
def none_in_flight(candidate: "Candidate") -> Iterator[Finding]:
    in_flight = 0 if candidate.ping_pong else candidate.wgmma_in_flight
    for _, asked in _asked(candidate):
        if in_flight:
            yield Finding(
                "pipeline.wgmma_in_flight",
                f"wgmma_in_flight = {in_flight} with {asked}",
                "0",
            )


@rule(
    "KG633",
    title="Steps and tiles are blocks of scales",
    reason="The sum of a step is multiplied with one scale of every row of A, and with "
    "one of B: a step is a block of K, and a tile as wide as a block.",
    source="kgen",
    bad=OF_FLOAT8 + SCALED + "[tile]\nn = 64\n" + WS,
    good=OF_FLOAT8 + SCALED + "[tile]\nn = 128\n" + WS,
)
def blocks(candidate: "Candidate") -> Iterator[Finding]:
    block = candidate.spec.scales.block
    if block is None:
        return
    for axis, size in (("n", candidate.spec.tile.n), ("k", candidate.tile_k)):
        if size != block:
            yield Finding(
                f"tile.{axis}",
                f"tile.{axis} = {size} with scales.block = {block}",
                str(block),
            )


@rule(
    "KG634",
    title="Operands are not swapped if blocks are scaled",
    reason="Rows of A would be columns of the accumulator. Mosaic GPU loads a vector for "
    "those only from elements side by side, and a column of `a_scale` is none.",
    source="Mosaic GPU, WGMMA layout; reproduced on a CPU",
    bad=OF_FLOAT8 + SCALED + WS + "swap_operands = true",
    good=OF_FLOAT8 + SCALED + WS,
)
def not_swapped(candidate: "Candidate") -> Iterator[Finding]:
    block = candidate.spec.scales.block
    if block is not None and candidate.swap_operands:
        yield Finding(
            "scales.block",
            f"scales.block = {block} with swap_operands = true",
            "one of the two",
        )


@rule(
    "KG635",
    title="Scaled operands are whole blocks",
    reason="With sizes of any kind the last blocks would be parts of blocks, for which "
    "there is no scale to pad.",
    source="kgen",
    bad=OF_FLOAT8 + SCALED + WS + '[shapes]\nedge = "any"',
    good=OF_FLOAT8 + SCALED + WS + '[shapes]\nedge = "exact"',
)
def whole_blocks(candidate: "Candidate") -> Iterator[Finding]:
    block, edge = candidate.spec.scales.block, candidate.spec.shapes.edge
    if block is not None and edge != "exact":
        yield Finding(
            "shapes.edge", f'edge = "{edge}" with scales.block = {block}', '"exact"'
        )
