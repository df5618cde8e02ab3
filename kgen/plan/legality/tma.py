"""KG3xx: what a TMA copy can move."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.layouts import COLUMN, is_transposed
from kgen.plan.legality.base import Finding, rule
from kgen.plan.model import Layout
from kgen.rules import TRACE

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

ROW_BYTES = 16
COPY_BYTES = 128
TILE = ("tile.m", "tile.n", "tile.k")


def _copies(
    candidate: "Candidate",
) -> Iterator[tuple[str, str, tuple[int, int], Layout, int]]:
    """Yields key, name, shape, layout and itemsize of every copy."""
    a, b = candidate.a_layout, candidate.b_layout
    yield _key_of_a(candidate), "A", candidate.a_tile, a, candidate.itemsize
    yield "tile.n", "B", candidate.b_tile, b, candidate.itemsize
    key = "tile.n" if candidate.spec.store.n == "auto" else "store.n"
    key = "tile.m" if candidate.out_order == COLUMN else key
    piece = candidate.out_piece
    yield key, "the output", piece, candidate.out_layout, candidate.out_itemsize


def _key_of_a(candidate: "Candidate") -> str:
    return "tile.m" if is_transposed(candidate.layout)[0] else "tile.k"


@rule(
    "KG301",
    title="A TMA box has at most 256 elements along each dimension",
    reason="A tiled copy is a box of (rows / 8, columns / width, 8, width) elements; "
    "without a tiling, rows and columns themselves are the box.",
    source="CUDA driver API, cuTensorMapEncodeTiled",
    bad='[kernel]\nlayout = "nt"\n[tile]\nm = 384\nn = 24',
    good='[kernel]\nlayout = "nt"\n[tile]\nm = 256\nn = 24',
    also_on=(TRACE,),
    allowable=True,
)
def box(candidate: "Candidate") -> Iterator[Finding]:
    limit = candidate.arch.tma_box
    for key, name, shape, layout, _ in _copies(candidate):
        rows, columns = layout.tiling or (1, 1)
        sizes = (math.ceil(shape[0] / rows), math.ceil(shape[1] / columns))
        if max(*sizes, rows, columns) > limit:
            yield Finding(
                key,
                f"a copy of {list(shape)} of {name} is a box of {max(sizes)} along one "
                "dimension",
                f"at most {limit}",
                "make the tile smaller; see `kgen rule KG301`",
                TILE,
            )


@rule(
    "KG302",
    title="Rows in memory are a multiple of 16 bytes",
    reason="TMA strides are multiples of 16 bytes. Sizes are multiples of the tile, so "
    "the tile's rows decide. This holds for the output as for the operands.",
    source="CUDA driver API, cuTensorMapEncodeTiled",
    bad='[kernel]\nlayout = "nt"\n[tile]\nn = 8\n[store]\nn = 4',
    good='[kernel]\nlayout = "nt"\n[tile]\nn = 8',
    also_on=(TRACE,),
    allowable=True,
)
def row_bytes(candidate: "Candidate") -> Iterator[Finding]:
    for key, name, (_, columns), _, itemsize in _copies(candidate):
        size = columns * itemsize
        if size % ROW_BYTES:
            yield Finding(
                key,
                f"a row of {columns} elements of {name} takes {size} bytes",
                f"multiples of {ROW_BYTES} bytes",
                f"use a multiple of {ROW_BYTES // itemsize} elements",
                TILE,
            )


@rule(
    "KG303",
    title="A copy moves a multiple of 128 bytes",
    reason="Mosaic GPU spreads a copy over the 128 threads of a warpgroup.",
    source="Mosaic GPU, async_copy; reproduced on a CPU",
    bad='[kernel]\nlayout = "nt"\n[tile]\nn = 8\nk = 4',
    good='[kernel]\nlayout = "nt"\n[tile]\nn = 8\nk = 64',
    also_on=(TRACE,),
    allowable=True,
)
def copy_bytes(candidate: "Candidate") -> Iterator[Finding]:
    for key, name, shape, _, itemsize in _copies(candidate):
        size = math.prod(shape) * itemsize
        if size % COPY_BYTES:
            yield Finding(
                key,
                f"a copy of {list(shape)} of {name} moves {size} bytes",
                f"multiples of {COPY_BYTES} bytes",
                "make the tile larger; see `kgen rule KG303`",
                TILE,
            )
