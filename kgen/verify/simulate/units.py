"""Copies beyond the end of a dimension that is a single tile.

TMA clips what lies beyond the end. But before JAX makes a TMA descriptor, it leaves out
every dimension of which array and copy have one tile, and with the dimension its index: a
copy that begins beyond such a dimension is not clipped. It reads or writes the only tile.
"""

from collections.abc import Sequence
from typing import Any

UNTILING = "UntilingTransform"


def tiling(transforms: Sequence[Any]) -> tuple[int, ...]:
    """Returns the tiling of SMEM that a copy's transforms take away; none is `()`."""
    for transform in transforms:
        if type(transform).__name__ == UNTILING:
            return tuple(transform.tiling)
    return ()


def check(what: str, access: Any, shape: tuple[int, ...], tiles: Sequence[int]) -> None:
    """Raises `IndexError` if a copy would begin in the only tile of a dimension instead.

    Args:
      what: What is copied, as a message tells it.
      access: The part of GMEM that is copied: ranges and indices.
      shape: The shape of the array in GMEM.
      tiles: The tiling of the last dimensions of what is copied.
    """
    kept = [at for at, each in enumerate(access.range) if isinstance(each, slice)]
    if access.permutation is not None:
        kept = [kept[at] for at in access.permutation]
    tile_of = dict(zip(kept[len(kept) - len(tiles) :], tiles, strict=True))
    for at, (each, size) in enumerate(zip(access.range, shape, strict=True)):
        tile = tile_of.get(at, 1)
        start, stop = (
            (int(each.start or 0), int(each.stop))
            if isinstance(each, slice)
            else (int(each), int(each) + 1)
        )
        if size <= tile and stop - start <= tile and start >= tile:
            raise IndexError(
                f"{what} begins at {start} of a dimension of {size}, which is one tile"
                f" of {tile}: JAX leaves such a dimension out together with its index,"
                f" so that a GPU begins at {start % tile} and TMA clips nothing; pad the"
                " dimension to two tiles"
            )
