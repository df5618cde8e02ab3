"""What is tried: every candidate as the values that it gives to keys of the spec.

The space is that of the spec's `[tune]`, or a default one of the operation that depends
on the shape: what is pointless there is never proposed.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

from kgen.errors import UsageError
from kgen.spec.locate import KeyPath
from kgen.spec.model import AnySpec, Spec
from kgen.spec.tune import MAX_CANDIDATES
from kgen.spec.wording import write_key
from kgen.tune import schedules, tiles
from kgen.tune.candidate import Candidate, Value
from kgen.tune.site import Shape, Site


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


STORE = ("store.n", "store.slots")


def _matmul(spec: AnySpec, site: Site) -> Iterator[Candidate]:
    assert isinstance(spec, Spec), "the spec of a matmul"
    for tile_m, tile_n, wgs, split, swap in tiles.of_matmul(spec, site):
        grid = site.grid(tile_m, tile_n)
        for depth, stages in tiles.rings(spec, site, tile_m * tile_n):
            for placement in schedules.of_tiles(spec, site, grid, site.steps(depth)):
                for pipeline in tiles.pipelines(stages):
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
    for tile_m, tile_n, wgs, split in tiles.of_glu(site):
        grid = site.grid(tile_m, tile_n)
        waves = math.prod(grid) / site.num_sms
        for depth, stages in tiles.rings(spec, site, tile_m * tile_n):
            for raster in schedules.rasters(grid, waves=waves):
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


def _candidate(values: Mapping[str, Value | None]) -> Candidate:
    """Returns a candidate whose stores suit its tile, not that of the spec."""
    return Candidate(values=tuple({**values, **dict.fromkeys(STORE)}.items()))


_DEFAULTS: dict[str, Callable[[AnySpec, Site], Iterator[Candidate]]] = {
    "matmul": _matmul,
    "glu": _glu,
}
