"""Follows a ref from its allocation through the transforms on it."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kgen.verify.static import values
from kgen.verify.static.facts import Layout
from kgen.verify.static.pieces import Pieces
from kgen.verify.static.values import Value

Lookup = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Window:
    """The part of an array in GMEM that transforms select.

    Attributes:
      offsets: Where it begins along each dimension.
      sizes: Elements along each dimension; 1 where an index is.
      squeezed: The dimensions where an index is.
      steps: Every how many elements are taken along each dimension.
    """

    offsets: tuple[Value, ...]
    sizes: tuple[int, ...]
    squeezed: tuple[bool, ...]
    steps: tuple[int, ...]


def split(
    leaves: Iterable[Any], trees: Sequence[Any]
) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Returns the transforms of each tree, and the leaves that are left."""
    rest = list(leaves)
    transforms = []
    for tree in trees:
        count = tree.num_leaves if tree is not None else 0
        mine, rest = rest[:count], rest[count:]
        transforms.append(() if tree is None else tuple(tree.unflatten(mine)))
    return transforms, rest


def layout_of(pieces: Pieces, transforms: Iterable[Any]) -> Layout:
    """Returns the SMEM layout that transforms undo."""
    swizzle = tiling = None
    for transform in transforms:
        if isinstance(transform, pieces.core.UnswizzleRef):
            swizzle = int(transform.swizzle)
        elif isinstance(transform, pieces.core.UntilingTransform):
            tiling = tuple(map(int, transform.tiling))
    return Layout(swizzle=swizzle, tiling=tiling)


def layout_fault(
    pieces: Pieces, aval: Any, transforms: Sequence[Any], logical: Sequence[int]
) -> str:
    """Returns why a ref of this physical type cannot have its layout; empty if it can."""
    layout = layout_of(pieces, transforms)
    physical, tiling, swizzle = tuple(aval.shape), layout.tiling, layout.swizzle
    if tiling and len(logical) < len(tiling):
        return f"tiles of {list(tiling)}, which have more dimensions"
    if tiling and physical[-len(tiling) :] != tiling:
        return f"tiles of {list(tiling)}, which do not divide it"
    row = physical[-1] if physical else 1
    if swizzle and row * pieces.itemsize_bits(aval.dtype) != swizzle * 8:
        what = "its tiles" if tiling else "it"
        return f"a {swizzle}-byte swizzle, which is not as wide as {what}"
    if tiling and swizzle and isinstance(transforms[0], pieces.core.UntilingTransform):
        return "its swizzle before its tiling"
    return ""


def logical_type(aval: Any, transforms: Iterable[Any]) -> Any:
    """Returns the type of a ref after its transforms; None if that is not known."""
    for transform in transforms:
        if not hasattr(transform, "transform_type"):
            continue  # A peer's memory looks as one's own.
        try:
            aval = transform.transform_type(aval)
        except Exception:
            return None
    return aval


def minor_dimension(pieces: Pieces, aval: Any, transforms: Iterable[Any]) -> int | None:
    """Returns the dimension of a transformed ref that is contiguous in memory."""
    minor: int | None = None
    for transform in transforms:
        if isinstance(transform, pieces.reshape):
            return None
        if isinstance(transform, pieces.transpose) and minor is not None:
            minor = tuple(transform.permutation).index(minor)
        elif isinstance(transform, pieces.indexer) and minor is not None:
            before = transform.indices[:minor]
            minor -= sum(not isinstance(index, pieces.slice) for index in before)
        aval = logical_type(aval, [transform])
        if aval is None:
            return None
        if minor is None or isinstance(transform, pieces.core.UntilingTransform):
            minor = len(aval.shape) - 1
    return len(aval.shape) - 1 if minor is None else minor


def window(
    pieces: Pieces, shape: Sequence[int], transforms: Iterable[Any], lookup: Lookup
) -> Window | None:
    """Returns what part of an array is selected; None if it is gathered or unknown."""
    offsets = [values.constant(0)] * len(shape)
    sizes, steps = list(shape), [1] * len(shape)
    squeezed = [False] * len(shape)
    live = list(range(len(shape)))
    for transform in transforms:
        if not isinstance(transform, pieces.indexer):
            if hasattr(transform, "device_id") or hasattr(transform, "collective_axes"):
                continue  # The same window of another device's array.
            return None
        if transform.int_indexer_shape:
            return None
        remaining = []
        for dimension, index in zip(live, transform.indices, strict=True):
            is_slice = isinstance(index, pieces.slice)
            if is_slice and not isinstance(index.size, int):
                return None
            start = lookup(index.start if is_slice else index)
            if not isinstance(start, Value):
                return None
            moved = values.multiply(start, values.constant(steps[dimension]))
            offsets[dimension] = values.add(offsets[dimension], moved)
            sizes[dimension] = index.size if is_slice else 1
            if is_slice:
                steps[dimension] *= index.stride
                remaining.append(dimension)
            else:
                squeezed[dimension] = True
        live = remaining
    return Window(tuple(offsets), tuple(sizes), tuple(squeezed), tuple(steps))


def bytes_of(shape: Sequence[int], bits: int) -> int:
    """Returns the bytes of an array."""
    return math.prod(shape) * bits // 8
