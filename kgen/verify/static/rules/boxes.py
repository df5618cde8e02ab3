"""The box that a TMA copy moves, dimension by dimension."""

import dataclasses

from kgen.verify.static.facts import Copy

TILE_ROWS = 8
NARROWEST_SWIZZLE_BITS = 256


@dataclasses.dataclass(frozen=True)
class Dimension:
    """One dimension of a copy.

    Attributes:
      index: Which dimension of the array.
      whole: The array's size along it.
      size: What is copied of it.
      squeezed: Whether an index selects one row.
    """

    index: int
    whole: int
    size: int
    squeezed: bool


def dimensions_of(copy: Copy) -> list[Dimension]:
    """Returns the dimensions as TMA sees them: rows that an index selects first."""
    every = [
        Dimension(*values)
        for values in zip(
            range(len(copy.box)), copy.gmem_shape, copy.box, copy.squeezed, strict=True
        )
    ]
    return sorted(every, key=lambda dimension: not dimension.squeezed)


def tiles_of(copy: Copy) -> list[tuple[Dimension, int]]:
    """Returns the tiled dimensions, each with its tile.

    Nothing if the tiles do not fit what is copied: then the ref breaks KG204 already.
    """
    tiling = copy.layout.tiling or ()
    kept = [d for d in dimensions_of(copy) if not d.squeezed]
    last = kept[len(kept) - len(tiling) :] if tiling else []
    tiles = list(zip(last, tiling, strict=False))
    return tiles if all(d.size % tile == 0 for d, tile in tiles) else []


def box_of(copy: Copy) -> list[int]:
    """Returns the sizes of a copy's box, without dimensions of one element."""
    tiles = tiles_of(copy)
    tiled = {dimension.index: tile for dimension, tile in tiles}
    outer = [(d.whole, d.size) for d in dimensions_of(copy) if d.index not in tiled]
    outer += [(-(-d.whole // t), -(-d.size // t)) for d, t in tiles]
    sizes = [size for whole, size in outer if (whole, size) != (1, 1)]
    return sizes + [min(tile, d.size) for d, tile in tiles]


def is_contiguous(copy: Copy) -> bool:
    """Whether a store may go without a box, as one piece of memory."""
    if copy.to_smem or copy.layout.swizzle or copy.layout.tiling:
        return False
    partial = [
        size != whole for size, whole in zip(copy.box, copy.gmem_shape, strict=True)
    ]
    first = partial.index(False) if False in partial else len(partial)
    return not any(partial[max(first, 1) :]) and all(
        size == 1 for size in copy.box[: first - 1]
    )


def may_be_tiled(copy: Copy) -> bool:
    """Whether Mosaic GPU may choose tiles of 8 rows, a swizzle wide, for the SMEM."""
    kept = [d.size for d in dimensions_of(copy) if not d.squeezed]
    if not copy.inferred or len(kept) < 2:
        return False
    return (
        kept[-2] % TILE_ROWS == 0 and kept[-1] * copy.bits % NARROWEST_SWIZZLE_BITS == 0
    )
