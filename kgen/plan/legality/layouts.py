"""KG2xx: SMEM layouts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.legality.base import Finding, rule
from kgen.rules import TRACE

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

ROWS = 8  # A swizzle atom has 8 rows.


@rule(
    "KG201",
    title="A and B have the same swizzle",
    reason="Mosaic GPU issues a wgmma with one swizzle for both operands.",
    source="Mosaic GPU, wgmma",
    bad="[transforms]\na = { swizzle = 128 }\nb = { swizzle = 64 }",
    good="[transforms]\na = { swizzle = 64 }\nb = { swizzle = 64 }",
    also_on=(TRACE,),
)
def same_swizzle(candidate: "Candidate") -> Iterator[Finding]:
    a, b = candidate.a_layout.swizzle, candidate.b_layout.swizzle
    if a != b:
        yield Finding(
            "transforms.b.swizzle",
            f"the swizzle of B is {b} bytes, that of A {a}",
            "one swizzle for both",
            "transforms.swizzle sets both",
        )


@rule(
    "KG202",
    title="A tiling is (8, swizzle / itemsize)",
    reason="wgmma and TMA see SMEM as atoms of 8 rows, each one swizzle wide.",
    source="Mosaic GPU, wgmma and async_copy",
    bad="[transforms]\na = { tiling = [16, 64] }",
    good="[transforms]\na = { tiling = [8, 64] }",
    also_on=(TRACE,),
)
def tiling(candidate: "Candidate") -> Iterator[Finding]:
    layouts = (
        ("a", candidate.a_layout, candidate.itemsize),
        ("b", candidate.b_layout, candidate.itemsize),
        ("out", candidate.out_layout, candidate.out_itemsize),
    )
    for name, layout, itemsize in layouts:
        if layout.swizzle is None:
            continue
        wanted = (ROWS, layout.swizzle // itemsize)
        if layout.tiling != wanted:
            yield Finding(
                f"transforms.{name}.tiling",
                f"transforms.{name}.tiling = {list(layout.tiling or ())}",
                f"{list(wanted)} with a {layout.swizzle}-byte swizzle",
            )


@rule(
    "KG203",
    title="The output's pieces are a multiple of its swizzle",
    reason="A row of the output in SMEM is made of whole swizzle atoms.",
    source="Mosaic GPU, async_copy",
    bad="[tile]\nn = 96\n[transforms]\nout = { swizzle = 128 }",
    good="[tile]\nn = 96\n[transforms]\nout = { swizzle = 64 }",
    allowable=True,
)
def out_swizzle(candidate: "Candidate") -> Iterator[Finding]:
    swizzle, (_, width) = candidate.out_layout.swizzle, candidate.out_piece
    if swizzle is None:
        return
    step = swizzle // candidate.out_itemsize
    if width % step:
        yield Finding(
            "transforms.out",
            f"rows of {width} {candidate.out_dtype} are not a multiple of {step}, the "
            f"{swizzle}-byte swizzle of the output",
            "a narrower swizzle, or pieces of another width (store.n)",
            follows=("tile.n",),
        )
