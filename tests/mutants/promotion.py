"""Faults of sums that are promoted from the tensor cores to registers."""

from .model import Fault, Kind

GROUP = "promotion"
MISSED = Kind(GROUP, "promotion missed", "a step's sum replaces the total")
TWICE = Kind(GROUP, "promoted twice", "a step's sum is added twice")
NARROW = Kind(GROUP, "total in few bits", "the total is rounded at every step")
FIRST_LOST = Kind(GROUP, "total begins with one", "the total does not begin with zero")

WRONG_BLOCK = Kind(
    GROUP, "scale of another block", "a step is scaled by another's scale"
)
SCALE_MISSED = Kind(
    GROUP, "scale of a block missed", "the scales of an operand are left out"
)
WRONG_ROWS = Kind(
    GROUP, "scale of other rows", "rows of A get those of another warpgroup"
)
SCALED_LATE = Kind(
    GROUP, "total scaled", "the scale of a step multiplies the whole sum"
)

BASES = ("promoted", "promoted_persistent")
SUM = "return total + pl.run_scoped(multiply, {})"
ACCUMULATORS = {
    "promoted": "plgpu.ACC((TILE_M, TILE_N), jnp.float32)",
    "promoted_persistent": "plgpu.ACC((WG_M, TILE_N), jnp.float32)",
}


def _faults(base: str, accumulator: str) -> tuple[Fault, ...]:
    right = SUM.format(accumulator)
    sum_of_step = right.removeprefix("return total + ")
    return (
        Fault(MISSED, (base,), ((right, f"return {sum_of_step}"),)),
        Fault(TWICE, (base,), ((right, f"return total + 2 * {sum_of_step}"),)),
        Fault(
            NARROW,
            (base,),
            (
                (
                    right,
                    f"total = total + {sum_of_step}\n"
                    "    return total.astype(jnp.bfloat16).astype(jnp.float32)",
                ),
            ),
        ),
        Fault(FIRST_LOST, (base,), (("jnp.zeros(", "jnp.ones("),)),
    )


SCALED = "block_scaled"
A_SCALE = "a_scale_gmem.at[_wg_rows(), ki]"
OF_BLOCKS = (
    Fault(
        WRONG_BLOCK,
        (SCALED,),
        ((A_SCALE, "a_scale_gmem.at[_wg_rows(), 0]"),),
        variant="of A",
    ),
    Fault(
        WRONG_BLOCK,
        (SCALED,),
        (("b_scale_gmem[ki]", "b_scale_gmem[0]"),),
        variant="of B",
    ),
    Fault(
        WRONG_BLOCK,
        (SCALED,),
        (("b_scale_gmem.at[n]", "b_scale_gmem.at[0]"),),
        variant="of columns",
    ),
    Fault(
        SCALE_MISSED,
        (SCALED,),
        (("scale = a_scale * b_scale_gmem[ki]", "scale = a_scale"),),
        variant="of B",
    ),
    Fault(
        WRONG_ROWS,
        (SCALED,),
        ((A_SCALE, "a_scale_gmem.at[pl.ds(0, WG_M), ki]"),),
    ),
    Fault(
        WRONG_ROWS,
        (SCALED,),
        (("a_scale_gmem.at[rows]", "a_scale_gmem.at[pl.ds(0, TILE_M)]"),),
        variant="of the first tile",
    ),
    Fault(
        SCALED_LATE,
        (SCALED,),
        (
            (
                "return total + product * lax.broadcast_in_dim",
                "return (total + product) * lax.broadcast_in_dim",
            ),
        ),
    ),
)
FAULTS = (
    *(fault for base in BASES for fault in _faults(base, ACCUMULATORS[base])),
    *OF_BLOCKS,
)
