"""Element types as the plan needs them."""

ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4}
# Bits of the significand, with the implicit one.
PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24}
UNIT_ROUNDOFF = {dtype: 2.0**-bits for dtype, bits in PRECISION.items()}
"""Largest relative error of rounding to nearest."""
