"""Element types as the plan needs them."""

from kgen.float8 import FLOAT8

ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4, **dict.fromkeys(FLOAT8, 1)}
# Bits of the significand, with the implicit one.
PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24}
UNIT_ROUNDOFF = {dtype: 2.0**-bits for dtype, bits in PRECISION.items()}
"""Largest relative error of rounding to nearest."""


def default_out(operand: str) -> str:
    """Returns the dtype of a result if a spec does not tell: 8-bit floats are too few."""
    return "bfloat16" if operand in FLOAT8 else operand
