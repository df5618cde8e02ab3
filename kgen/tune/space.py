"""What is tried: every candidate as the values that it gives to keys of the spec.

The space is that of the spec's `[tune]`, or a default one of the operation that depends
on the shape: what is pointless there is never proposed.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from kgen.errors import UsageError
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import ANY
from kgen.spec.locate import KeyPath
from kgen.spec.model import AnySpec, Spec
from kgen.spec.tune import MAX_CANDIDATES
from kgen.spec.wording import write_key, write_value

type Shape = tuple[int, int, int]
type Value = bool | int | str | tuple[object, ...]

SWIZZLE_BYTES = 128
STAGES = (2, 3, 4, 5, 6, 8, 10, 12)
SPLITS = (2, 4, 8)
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
# Whether a CTA keeps on, and whether its warpgroups do so in turns.
PERSISTENCE: tuple[dict[str, Value | None], ...] = (
    {"schedule.persistent": None, "schedule.ping_pong": None},
    {"schedule.persistent": True, "schedule.ping_pong": None},
    {
        "schedule.persistent": True,
        "schedule.ping_pong": True,
        "schedule.split": None,
    },
)
# With the operands swapped, rows of the output are columns of wgmma.
SWAPPED_ROWS = (64, 32, 16, 8)
SWAPPED_COLUMNS = ((64, 1), (128, 2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """One point of the space.

    Attributes:
      values: The value of each key by its dotted name, in the order of the axes; None
        for a key that is left out, so that the planner decides.
    """

    values: tuple[tuple[str, Value | None], ...]

    def get(self, key: str) -> Value | None:
        """Returns the value of a key; None if it is left out."""
        return dict(self.values).get(key)

    @property
    def label(self) -> str:
        """What the candidate is called: `tile.m=128 tile.n=256 ...`."""
        return " ".join(
            f"{key}={write_value(value)}"
            for key, value in self.values
            if value is not None
        )


def of_axes(axes: Mapping[KeyPath, tuple[Value, ...]]) -> Iterator[Candidate]:
    """Yields every combination of the values of `[tune]`.

    Raises:
      UsageError: there are too many.
    """
    total = math.prod(map(len, axes.values()))
    if total > MAX_CANDIDATES:
        raise UsageError(
            f"[tune] has {total} combinations\n  allowed: at most {MAX_CANDIDATES}"
        )
    keys = [write_key(path) for path in axes]
    for values in itertools.product(*axes.values()):
        yield Candidate(values=tuple(zip(keys, values, strict=True)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """What a default space is made for.

    Attributes:
      shape: (m, n, k).
      num_sms: SMs of the GPU.
      matrices: Products of that shape that are computed at once.
    """

    shape: Shape
    num_sms: int
    matrices: int = 1

    def grid(self, tile_m: int, tile_n: int) -> tuple[int, int]:
        """Returns the tiles of one matrix along m and n."""
        m, n, _ = self.shape
        return math.ceil(m / tile_m), math.ceil(n / tile_n)

    def steps(self, depth: int) -> int:
        """Returns the steps of so much of k; what is left over is one, too."""
        return math.ceil(self.shape[2] / depth)


def default(
    spec: AnySpec, shape: Shape, num_sms: int, matrices: int = 1
) -> Iterator[Candidate]:
    """Yields the candidates of an operation's own space.

    Args:
      spec: Its dtypes and scales decide how deep a step is.
      shape: (m, n, k).
      num_sms: SMs of the GPU.
      matrices: Products of that shape that are computed at once.

    Raises:
      UsageError: the operation has none.
    """
    make = _DEFAULTS.get(spec.kernel.op)
    if make is None:
        raise UsageError(
            f"there is no default space for the operation {spec.kernel.op!r}\n"
            "  hint: name the keys and their values in a [tune] table of the spec"
        )
    seen = set[Candidate]()
    site = Site(shape=shape, num_sms=num_sms, matrices=matrices)
    for candidate in make(spec, site):
        if candidate not in seen:
            seen.add(candidate)
            yield candidate


def _matmul(spec: AnySpec, site: Site) -> Iterator[Candidate]:
    assert isinstance(spec, Spec), "the spec of a matmul"
    for tile_m, tile_n, wgs, split, swap in _tiles(spec, site):
        grid = site.grid(tile_m, tile_n)
        for depth, stages in _rings(spec, site, tile_m * tile_n):
            for placement in _placements(spec, site, grid, site.steps(depth)):
                for pipeline in _pipelines(stages):
                    yield _candidate(
                        {
                            "tile.m": tile_m,
                            "tile.n": tile_n,
                            "tile.k": depth,
                            "pipeline.max_concurrent_steps": stages,
                            **pipeline,
                            "schedule.warp_specialized": True,
                            "schedule.num_compute_wgs": wgs,
                            "schedule.split": split if wgs > 1 else None,
                            "schedule.swap_operands": True if swap else None,
                            **placement,
                        }
                    )


def _glu(spec: AnySpec, site: Site) -> Iterator[Candidate]:
    """Yields the candidates of a gated linear unit, which is always persistent."""
    assert isinstance(spec, Spec), "the spec of a gated linear unit"
    for tile_m, tile_n, wgs, split in GLU_TILES:
        if not _is_filled(tile_m, tile_n, site):
            continue
        grid = site.grid(tile_m, tile_n)
        waves = math.prod(grid) / site.num_sms
        for depth, stages in _rings(spec, site, tile_m * tile_n):
            for raster in _rasters(grid, waves=waves):
                yield _candidate(
                    {
                        "tile.m": tile_m,
                        "tile.n": tile_n,
                        "tile.k": depth,
                        "pipeline.max_concurrent_steps": stages,
                        "schedule.warp_specialized": True,
                        "schedule.persistent": True,
                        "schedule.num_compute_wgs": wgs,
                        "schedule.split": split if wgs > 1 else None,
                        **raster,
                    }
                )


def _rings(spec: Spec, site: Site, elements: int) -> Iterator[tuple[int, int]]:
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


def _tiles(spec: Spec, site: Site) -> Iterator[tuple[int, int, int, str, bool]]:
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


def _pipelines(stages: int) -> Iterator[dict[str, Value | None]]:
    """Yields when a slot is released: as the planner likes, or at once.

    With two slots, one that is kept a step longer leaves nothing to load into.
    """
    keys = ("pipeline.delay_release", "pipeline.wgmma_in_flight")
    yield dict.fromkeys(keys)
    if stages == STAGES[0]:
        yield dict.fromkeys(keys, 0)


def _placements(
    spec: Spec, site: Site, grid: tuple[int, int], steps: int
) -> Iterator[dict[str, Value | None]]:
    """Yields how the tiles of a grid are handed out to the SMs."""
    tiles, num_sms = math.prod(grid) * site.matrices, site.num_sms
    splits = [
        parts
        for parts in SPLITS * (not spec.shapes.batch)
        if tiles * parts <= 2 * num_sms and steps >= 4 * parts
    ]
    for parts in (None, *splits):
        # K is split where there are few tiles, and a CTA keeps on where there are many.
        many = tiles > num_sms and not parts
        for schedule, cluster, raster in itertools.product(
            PERSISTENCE if many else PERSISTENCE[:1],
            _clusters(grid),
            _rasters(grid, waves=tiles / num_sms),
        ):
            if schedule["schedule.ping_pong"] and any(cluster.values()):
                continue
            yield {
                **schedule,
                "schedule.split_k": parts,
                **cluster,
                **raster,
            }


def _clusters(grid: tuple[int, int]) -> Iterable[dict[str, Value | None]]:
    alone: dict[str, Value | None] = {"cluster.m": None, "cluster.n": None}
    yield alone
    for name, tiles in zip("mn", grid, strict=True):
        if tiles > 1:
            yield {**alone, f"cluster.{name}": 2}


def _rasters(
    grid: tuple[int, int], *, waves: float
) -> Iterable[dict[str, Value | None]]:
    """Yields orders in which the tiles are walked; one if there is one row of them."""
    if min(grid) == 1:
        yield {"raster.order": None, "raster.width": None}
        return
    orders = ("m", "n") if waves > 1 else ("m",)
    for order in orders:
        across = grid["mn".index(order)]
        widths = [width for width in (2, 4, 8, 16) if width <= across]
        for width in widths if waves > 1 else widths[:2]:
            yield {"raster.order": order, "raster.width": width}


def _candidate(values: Mapping[str, Value | None]) -> Candidate:
    return Candidate(values=tuple(values.items()))


_DEFAULTS: dict[str, Callable[[AnySpec, Site], Iterator[Candidate]]] = {
    "matmul": _matmul,
    "glu": _glu,
}
