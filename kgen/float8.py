"""8-bit floats: how wide they are, and how exactly Hopper adds their products."""

import math

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
"""The formats that wgmma multiplies, also one with the other."""
SUM_BITS = 13
"""Bits below the leading one that survive when the tensor cores add 8-bit products.

A wgmma shifts 32 products and the sum so far to the largest exponent among them and cuts
off what lies below (DeepSeek-V3, Technical Report, section 3.5.2, tells of about 14
bits in all). Sums of integers below 2**SUM_BITS lose nothing.
"""
WGMMA_K = 32
"""Products that one wgmma of 8-bit operands adds at once."""
EXACT_SUM: int = 2**SUM_BITS
"""Sums of integers up to this size are exact."""


def share_of_ones(reduction: int) -> float:
    """Returns the share of operands that may be 1 or -1, where the others are 0.

    A share s of both operands leaves s * s * reduction products that are not zero: no
    partial sum is larger. Half of `EXACT_SUM` leaves room for chance.
    """
    return min(2 / 3, math.sqrt(EXACT_SUM / 2 / max(reduction, 1)))


def sum_error(reduction: int) -> float:
    """Returns the error of a sum of products of 8-bit operands.

    In units of the largest partial sum. The sum so far is cut off once for every wgmma,
    always towards zero, by half of the last bit on average. Every product is cut off too,
    whose errors have either sign.
    """
    return (reduction / (2 * WGMMA_K) + math.sqrt(reduction)) / EXACT_SUM


def promoted_error(reduction: int, every: int) -> float:
    """Returns the error of a sum that is promoted to float32 after so many products.

    In units of the sum of the products' sizes. Each part is off by what `sum_error` says
    of it, some this way and some that way.
    """
    of_a_part = sum_error(every) * largest_partial_sum(every)
    return of_a_part / math.sqrt(max(reduction / every, 1))


def largest_partial_sum(reduction: int) -> float:
    """Returns the size of partial sums of products of either sign.

    In units of the sum of the products' sizes, beside the size of the whole sum: the
    deviation of a sum of so many normal products is 1.6 times the mean size of one, by
    the square root of their number.
    """
    return 2 / math.sqrt(max(reduction, 1))
