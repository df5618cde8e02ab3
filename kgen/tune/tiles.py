"""The tiles of a default space, and the rings of slots that feed them."""

import itertools
from collections.abc import Iterator

from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import ANY
from kgen.spec.model import Spec
from kgen.tune.candidate import Value
from kgen.tune.site import Site

SWIZZLE_BYTES = 128
STAGES = (2, 3, 4, 5, 6, 8, 10, 12)
# Tiles of wide shapes; below two waves of 128 x 128 the smaller ones count too.
# (tile.m, tile.n, compute warpgroups, the dimension that they split)
LARGE_TILES = (
    (128, 256, 2, "m"),
    (256, 128, 2, "m"),
    (128, 192, 2, "m"),
    (128, 128, 2, "m"),
)
SMALL_TILES = (
    (64, 256, 2, "n"),
    (64, 128, 1, "m"),
    (64, 128, 2, "n"),
    (128, 64, 2, "m"),
    (64, 64, 1, "m"),
)
# Of a gated linear unit, whose warpgroups have two sums of their part of a tile.
GLU_TILES = (
    (128, 128, 2, "m"),
    (128, 64, 2, "m"),
    (128, 192, 2, "m"),
    (256, 64, 2, "m"),
    (192, 128, 3, "m"),
    (64, 256, 2, "n"),
    (64, 128, 2, "n"),
    (64, 128, 1, "m"),
    (64, 64, 1, "m"),
)
# With the operands swapped, rows of the output are columns of wgmma.
SWAPPED_ROWS = (64, 32, 16, 8)
SWAPPED_COLUMNS = ((64, 1), (128, 2))


def of_matmul(spec: Spec, site: Site) -> Iterator[tuple[int, int, int, str, bool]]:
    """Yields tiles, their warpgroups, what these split, and whether to swap."""
    m, n, _ = site.shape
    block = spec.scales.block
    if m <= SWAPPED_ROWS[0] and block is None:
        rows = _swapped_rows(m, any_edge=spec.shapes.edge == ANY)
        for columns, wgs in SWAPPED_COLUMNS:
            yield rows, columns, wgs, "n", True
    few = site.matrices * m * n < 4 * site.num_sms * 128 * 128
    for tile_m, tile_n, wgs, split in LARGE_TILES + SMALL_TILES * few:
        # A tile is as wide as a block of scales.
        if _is_filled(tile_m, tile_n, site) and block in (None, tile_n):
            yield tile_m, tile_n, wgs, split, False


def of_glu(site: Site) -> Iterator[tuple[int, int, int, str]]:
    """Yields the same of a gated linear unit, which swaps nothing."""
    for tile_m, tile_n, wgs, split in GLU_TILES:
        if _is_filled(tile_m, tile_n, site):
            yield tile_m, tile_n, wgs, split


def _swapped_rows(m: int, *, any_edge: bool) -> int:
    """Returns the rows of a tile for few rows: those that divide m, or just hold it."""
    fitting = [rows for rows in SWAPPED_ROWS if m % rows == 0]
    if any_edge:
        fitting = [rows for rows in reversed(SWAPPED_ROWS) if rows >= m]
    return fitting[0] if fitting else SWAPPED_ROWS[-1]


def _is_filled(tile_m: int, tile_n: int, site: Site) -> bool:
    """Whether the output is more than half as large as a tile."""
    m, n, _ = site.shape
    return tile_m < 2 * max(m, 64) and tile_n < 2 * max(n, 64)


def rings(spec: Spec, site: Site, elements: int) -> Iterator[tuple[int, int]]:
    """Yields depths of a step and numbers of slots, for tiles of so many elements."""
    row = SWIZZLE_BYTES // ITEMSIZE[spec.dtypes.a]
    # A thin step moves little: deeper ones make up for it.
    depths = [row, 2 * row, 4 * row] if elements <= 64 * 64 else [row, 2 * row]
    if spec.scales.block is not None:
        depths = [spec.scales.block]
    for depth, stages in itertools.product(depths, STAGES):
        # A ring has no more slots than there are steps.
        if stages <= max(site.steps(depth), STAGES[0]):
            yield depth, stages


def pipelines(stages: int) -> Iterator[dict[str, Value | None]]:
    """Yields when a slot is released: as the planner likes, or at once.

    With two slots, one that is kept a step longer leaves nothing to load into.
    """
    keys = ("pipeline.delay_release", "pipeline.wgmma_in_flight")
    yield dict.fromkeys(keys)
    if stages == STAGES[0]:
        yield dict.fromkeys(keys, 0)
