"""How the tiles of a grid are handed out to the SMs, in a default space."""

import itertools
import math
from collections.abc import Iterable, Iterator

from kgen.spec.model import Spec
from kgen.tune.candidate import Value
from kgen.tune.site import Site

SPLITS = (2, 4, 8)
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


def of_tiles(
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
            rasters(grid, waves=tiles / num_sms),
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


def rasters(
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
