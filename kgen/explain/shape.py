"""The shape that a plan is explained for."""

import math
from collections.abc import Iterator, Sequence

from kgen.errors import UsageError
from kgen.plan.model import MatmulPlan
from kgen.roofline import round_up
from kgen.shapes import MOST_MATRICES

type Shape = tuple[int, int, int]

_USUAL = 4096
# The most that a TMA descriptor takes along one dimension.
_MAX_EXTENT = 2**32


def default_shape(plan: MatmulPlan, tested: Sequence[Sequence[int]]) -> Shape:
    """Returns the largest shape of `tested`, else about 4096 each way.

    The latter is rounded up to multiples of the tile.

    Args:
      plan: The plan.
      tested: Sizes (m, n, k) of the spec's `[test]`.
    """
    if tested:
        m, n, k = max(tested, key=math.prod)
    else:
        m, n, k = (round_up(_USUAL, tile) for tile in _tile(plan))
    return m, n, k


def check_shape(plan: MatmulPlan, shape: Shape, batch: tuple[int, ...] = ()) -> None:
    """Checks that the kernel of `plan` can do `shape`, which is (m, n, k).

    Args:
      plan: The plan.
      shape: Sizes of one matrix.
      batch: Leading dimensions.

    Raises:
      UsageError: it cannot; the message tells every size that is wrong.
    """
    top_m = min(_MAX_EXTENT, plan.max_m or _MAX_EXTENT)
    tops = (top_m, _MAX_EXTENT, _MAX_EXTENT)
    wrong = []
    for name, size, tile, top in zip("mnk", shape, _tile(plan), tops, strict=True):
        if size <= 0 or size % tile:
            wrong.append(f"  {name} = {size} is not a positive multiple of {tile}")
        elif size > top:
            wrong.append(f"  {name} = {size} is more than {top}")
    wrong += _wrong_batch(plan, batch)
    if wrong:
        m, n, k = _tile(plan)
        of_batch = "".join(f"{size}x" for size in batch)
        raise UsageError(
            "\n".join(
                [
                    f"{plan.name} cannot do --shape "
                    f"{of_batch}{','.join(map(str, shape))}",
                    *wrong,
                    f"  allowed: m a multiple of {m} up to {tops[0]}, n of {n} and k "
                    f"of {k} up to {_MAX_EXTENT}",
                ]
            )
        )


def _wrong_batch(plan: MatmulPlan, batch: tuple[int, ...]) -> Iterator[str]:
    if batch and not plan.batched:
        yield "  it takes no batch: shapes.batch = true would"
    most, matrices = plan.max_matrices or MOST_MATRICES, math.prod(batch)
    if matrices > most:
        yield f"  {matrices} matrices are more than {most}"


def _tile(plan: MatmulPlan) -> Shape:
    return plan.units
