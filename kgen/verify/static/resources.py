"""Adds up the memory that a kernel asks for, as Mosaic GPU's lowering does.

Scopes within one another need the sum, scopes after one another the larger.
"""

import collections
import dataclasses
import math
from typing import Any, Self

from kgen.verify.static.pieces import Pieces, jaxprs_in

ALIGNMENT = 1024
BARRIER_BYTES = 8
TMEM_ALIGNMENT = 8
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resources:
    """Memory of one CTA.

    Attributes:
      buffers: Bytes of refs in SMEM.
      barriers: Number of equal allocations of barriers, by type and count.
      columns: TMEM columns.
    """

    buffers: int = 0
    barriers: collections.Counter[tuple[Any, int]] = dataclasses.field(
        default_factory=collections.Counter
    )
    columns: int = 0

    @property
    def smem_bytes(self) -> int:
        """Bytes of SMEM, barriers included."""
        count = sum(size * times for (_, size), times in self.barriers.items())
        return self.buffers + count * BARRIER_BYTES

    @property
    def tmem_columns(self) -> int:
        """TMEM columns."""
        return self.columns

    def plus(self, other: Self) -> "Resources":
        """Returns what both need at once."""
        return Resources(
            buffers=self.buffers + other.buffers,
            barriers=self.barriers + other.barriers,
            columns=self.columns + other.columns,
        )

    def either(self, other: Self) -> "Resources":
        """Returns what one needs after the other."""
        return Resources(
            buffers=max(self.buffers, other.buffers),
            barriers=self.barriers | other.barriers,
            columns=max(self.columns, other.columns),
        )


def estimate(pieces: Pieces, jaxpr: Any, scratch_bytes: int) -> Resources:
    """Returns what a jaxpr needs.

    Args:
      pieces: The pieces of JAX.
      jaxpr: The jaxpr.
      scratch_bytes: SMEM that a reduction takes.
    """
    needed = Resources()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _REDUCTIONS:
            needed = needed.either(Resources(buffers=_aligned(scratch_bytes)))
        for inner in jaxprs_in(eqn.params.values()):
            within = estimate(pieces, inner, scratch_bytes)
            if eqn.primitive is pieces.run_scoped:
                for variable in inner.invars:
                    within = within.plus(_allocated(pieces, variable.aval))
            needed = needed.either(within)
    return needed


def tmem_columns(pieces: Pieces, aval: Any) -> int:
    """Returns the columns of a ref in TMEM."""
    if isinstance(aval, pieces.core.AbstractRefUnion):
        return int(aval.shape[1])
    bits = pieces.itemsize_bits(aval.dtype)
    return int(aval.layout.cols_in_shape(aval.shape, bits))


def _allocated(pieces: Pieces, aval: Any) -> Resources:
    core, dtype = pieces.core, aval.dtype
    if isinstance(dtype, core.BarrierType | core.ClusterBarrierType):
        size = math.prod(aval.shape)
        return Resources(barriers=collections.Counter({(dtype, size): 1}))
    if aval.memory_space == core.MemorySpace.SMEM:
        size = aval.size * pieces.itemsize_bits(dtype) // 8
        return Resources(buffers=_aligned(size))
    if aval.memory_space == core.MemorySpace.TMEM:
        columns = tmem_columns(pieces, aval)
        return Resources(columns=-(-columns // TMEM_ALIGNMENT) * TMEM_ALIGNMENT)
    return Resources()


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
