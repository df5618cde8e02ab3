"""Every choice of the operation `scale`."""

import dataclasses
from typing import ClassVar

from kgen.arch import ARCHS
from kgen.errors import SpecError
from kgen.plan.base import OperationPlan
from kgen.spec.source import SourcedSpec
from kgen_scale.spec import ScaleSpec

ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4}
# TMA copies boxes of at most so many rows and columns, and 16 bytes or more at once.
MAX_BOX, ROW_BYTES = 256, 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalePlan(OperationPlan):
    """What was decided.

    Attributes:
      alpha: The factor.
      dtype: Elements of the operand and of the result.
      tile_m: Rows of a CTA's tile.
      tile_n: Columns of the same.
    """

    op: ClassVar[str] = "scale"
    alpha: float
    dtype: str
    tile_m: int
    tile_n: int


def plan(source: SourcedSpec) -> ScalePlan:
    """Returns the plan of a spec.

    Raises:
      SpecError: the tile cannot be; every reason is told.
    """
    spec = source.spec
    assert isinstance(spec, ScaleSpec), "kgen has validated it"
    made = ScalePlan.of(
        source,
        alpha=spec.scale.alpha,
        dtype=spec.scale.dtype,
        tile_m=spec.tile.m,
        tile_n=spec.tile.n,
    )
    row_bytes = made.tile_n * ITEMSIZE[made.dtype]
    smem_bytes = 2 * made.tile_m * row_bytes
    limit = ARCHS[made.arch].smem_bytes
    problems = []
    for key, size in (("tile.m", made.tile_m), ("tile.n", made.tile_n)):
        if size > MAX_BOX:
            message = f"{key} = {size} is more than a TMA box holds"
            problems.append(
                source.problem(key, "KG301", message, allowed=f"at most {MAX_BOX}")
            )
    if row_bytes % ROW_BYTES:
        message = f"tile.n = {made.tile_n} makes rows of {row_bytes} bytes"
        problems.append(
            source.problem(
                "tile.n", "KG301", message, allowed=f"multiples of {ROW_BYTES} bytes"
            )
        )
    if smem_bytes > limit:
        message = f"the tiles take {smem_bytes:,} bytes of SMEM"
        problems.append(
            source.problem("tile", "KG401", message, allowed=f"at most {limit:,}")
        )
    if problems:
        raise SpecError(tuple(problems))
    return made
