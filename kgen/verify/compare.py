"""Compares a result with its reference; numpy alone.

Everything here is a float64 array: 16- and 32-bit results fit exactly. The functions
return None when all is well and otherwise a text that says how many elements are wrong,
which is the first, and what they have in common.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from kgen import float8
from kgen.verify.floats import FORMATS, Array, FloatFormat

Mask = NDArray[np.bool_]
Suspects = Callable[[], Iterable[tuple[str, Array]]]

ACCUMULATOR = FORMATS["float32"]
TF32_DROPPED = 2.0**-10
"""Largest relative change of an operand cut to tf32's 10 mantissa bits."""
CONFIDENCE = 6.0
BLOCK_SIZES = (256, 192, 128, 96, 64, 32, 16, 8)
BLOCK_IS_WRONG = 0.8
"""Share of wrong elements from which a block counts as wrong as a whole: on small
integers a few elements are right by chance."""
ENOUGH = 0.5
"""Share of elements that a reference must tell more of than that they overflow."""


class BadReferenceError(ValueError):
    """The expected values cannot serve as a test."""


def tolerance(
    expected: Array,
    magnitude: Array,
    *,
    reduction: int,
    operand_dtype: str,
    out_dtype: str,
    on_gpu: bool = False,
    promoted: int = 0,
) -> Array:
    """Returns the largest error that a right kernel may make, element by element.

    The result is a sum of `reduction` products, added in float32 and then rounded to
    `out_dtype`. With u = 2^-24 and S = sum |a_i b_i| (`magnitude`):

    - *Accumulation.* A sum of d rounded operations, in whatever order, is off by at most
      d u S to first order (Higham, "Accuracy and Stability of Numerical Algorithms",
      section 3.1). Rounding errors do not conspire: they stay below
      lambda sqrt(d) u S but with a probability that falls as exp(-lambda^2 / 2) (Higham
      and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019). The
      smaller of the two is taken, with lambda = 6. d is `reduction`; products of 16-bit
      operands are exact in float32 (22 bits at most), products of float32 operands
      are rounded themselves, so that d is one more.
    - *tf32.* Only if `on_gpu`: a GPU cuts float32 operands to 10 mantissa bits, which
      changes each by up to 2^-10 and a product by up to 2^-9 + 2^-20 of itself. The cut
      always goes towards zero, so this part grows with S and not with a square root.
      JAX's interpreter multiplies in full float32.
    - *8-bit floats.* Only if `on_gpu`, too: the tensor cores add their products with 13
      bits, see `kgen.float8`. The error grows with the largest partial sum, which is
      taken as |s| or, where the sum cancels, as 2 S / sqrt(d).
    - *Result.* Rounding a sum s to `out_dtype` adds up to v |s|, v = 2^-8 for bfloat16
      and 2^-11 for float16, or half the smallest subnormal. A float32 result is the
      accumulator itself and is not rounded again.

    Args:
      expected: The exact result, float64.
      magnitude: The same sum over absolute values.
      reduction: Number of products per element.
      operand_dtype: Elements of the operands.
      out_dtype: Elements of the result.
      on_gpu: Whether a GPU multiplied, and not JAX's interpreter.
      promoted: Products of 8-bit floats that the tensor cores add before their sum is
        added to one in registers; 0 for all.
    """
    # A sum that is promoted is multiplied with two scales, and added.
    operations = reduction + (operand_dtype == "float32") + 3 * bool(promoted)
    growth = min(operations, CONFIDENCE * math.sqrt(operations))
    relative = growth * ACCUMULATOR.unit_roundoff
    if on_gpu and operand_dtype == "float32":
        relative += 2 * TF32_DROPPED + TF32_DROPPED**2
    accumulated = relative * magnitude
    if on_gpu and promoted:
        accumulated = (
            accumulated + float8.promoted_error(reduction, promoted) * magnitude
        )
    elif on_gpu and operand_dtype in float8.FLOAT8:
        largest = np.abs(expected) + float8.largest_partial_sum(reduction) * magnitude
        accumulated = accumulated + float8.sum_error(reduction) * largest
    if out_dtype == "float32":
        return accumulated
    out = FORMATS[out_dtype]
    rounding = out.unit_roundoff * (np.abs(expected) + accumulated)
    return accumulated + rounding + out.smallest / 2


def exact(
    result: Array,
    expected: Array,
    magnitude: Array,
    *,
    out_dtype: str,
    operand_dtype: str = "float32",
    suspects: Suspects = tuple,
) -> str | None:
    """Compares bit for bit; zeros of either sign are equal.

    A sum beyond the largest number of `out_dtype` is rounded to an infinity there, as
    a GPU does it.

    Args:
      result: What the kernel returned.
      expected: The exact result, before it is rounded to `out_dtype`.
      magnitude: The sums of absolute values: no partial sum is larger.
      out_dtype: Elements of the result.
      operand_dtype: Elements of the operands.
      suspects: Makes the results of well-known faults, by name and not rounded.

    Raises:
      BadReferenceError: a sum is not exact where it is added, or most overflow.
    """
    _check_finite(expected)
    limit, where = 2.0**ACCUMULATOR.precision, "in float32"
    if operand_dtype in float8.FLOAT8:
        limit, where = float8.EXACT_SUM, "where a GPU adds products of 8-bit floats"
    if magnitude.max(initial=0) > limit:
        raise BadReferenceError(
            f"partial sums up to {magnitude.max():.0f} are not exact {where}"
        )
    out = FORMATS[out_dtype]
    rounded = out.round(expected)
    _check_overflow(rounded, out_dtype)
    wrong = result != rounded
    if result.shape == expected.shape and not wrong.any():
        return None
    return _report(result, rounded, wrong, out=out, suspects=suspects)


def close(
    result: Array, expected: Array, allowed: Array, *, out_dtype: str
) -> str | None:
    """Compares within `allowed`, the largest error of every element.

    Where an expected value may be beyond the largest number of `out_dtype`, an infinity
    is right too.

    Raises:
      BadReferenceError: an expected value or an allowed error is not finite, or most
        values overflow.
    """
    _check_finite(expected)
    _check_finite(allowed, " (allowed error)")
    out = FORMATS[out_dtype]
    _check_overflow(out.round(expected), out_dtype)
    extreme = out.round(expected + np.copysign(allowed, expected))
    with np.errstate(invalid="ignore"):
        # Written so that a NaN in the result is wrong.
        wrong = ~(np.abs(result - expected) <= allowed)
        wrong &= ~(np.isinf(extreme) & (result == extreme))
    if not wrong.any():
        return None
    return _report(result, expected, wrong, out=out, allowed=allowed)


def equal(result: Array, expected: Array) -> str | None:
    """Compares integers, or truth values as 0 and 1.

    Raises:
      BadReferenceError: an expected value is not finite.
    """
    _check_finite(expected)
    wrong = result != expected
    if not wrong.any():
        return None
    return f"{_count(result, expected, wrong)}; {_region(wrong)}"


def _check_finite(values: Array, what: str = "") -> None:
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        place = tuple(bad[0])
        raise BadReferenceError(
            f"the reference{what} is {values[place]} at {_index(place)}"
        )


def _check_overflow(rounded: Array, dtype: str) -> None:
    """Checks that enough of a reference is finite in the result's dtype."""
    infinite = ~np.isfinite(rounded)
    if np.count_nonzero(infinite) > ENOUGH * infinite.size:
        raise BadReferenceError(
            f"{np.count_nonzero(infinite)} of {rounded.size} elements of the reference"
            f" overflow {dtype}, too many for a test"
        )


def _report(
    result: Array,
    expected: Array,
    wrong: Mask,
    *,
    out: FloatFormat,
    allowed: Array | None = None,
    suspects: Suspects = tuple,
) -> str:
    counted = _count(result, expected, wrong, allowed)
    return f"{counted}; {_pattern(result, expected, wrong, out, suspects)}"


def _count(
    result: Array, expected: Array, wrong: Mask, allowed: Array | None = None
) -> str:
    first = tuple(np.argwhere(wrong)[0])
    within = "" if allowed is None else f" within {allowed[first]:.3g}"
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} elements are wrong, the first at"
        f" {_index(first)}: got {result[first]:g}, expected {expected[first]:g}{within}"
    )


def _pattern(
    result: Array, expected: Array, wrong: Mask, out: FloatFormat, suspects: Suspects
) -> str:
    """Says what the wrong elements have in common."""
    nans = np.isnan(result) & wrong
    if nans.any():
        count = "they are" if (nans == wrong).all() else f"{np.count_nonzero(nans)} are"
        return f"{count} NaN, as memory that was never written: {_region(nans)}"
    for name, values in suspects():
        if np.array_equal(result, out.round(values)):
            return f"the result is {name}"
    with np.errstate(invalid="ignore"):
        steps = np.abs(result - expected)[wrong] / out.ulp(expected)[wrong]
    if steps.max() <= 2:
        return "each is off by a rounding or two, as after a cast that comes too early"
    if not result[wrong].any():
        return f"they are all zero: {_region(wrong)}"
    return _region(wrong)


def _region(wrong: Mask) -> str:
    """Describes where a matrix is wrong, in blocks as large as fit.

    Whatever has not two dimensions is described by its rows, one below the other.
    """
    if wrong.ndim != 2:
        wrong = wrong.reshape(-1, wrong.shape[-1] if wrong.ndim else 1)
    m, n = wrong.shape
    for rows, columns in _block_shapes(m, n):
        blocks = wrong.reshape(m // rows, rows, n // columns, columns).mean((1, 3))
        if ((blocks == 0) | (blocks >= BLOCK_IS_WRONG)).all():
            return _blocks(blocks > 0, rows, columns)
    return "they are scattered"


def _block_shapes(m: int, n: int) -> Iterator[tuple[int, int]]:
    """Yields the block shapes that divide [m, n], the largest first."""
    heights, widths = (
        [size, *(s for s in BLOCK_SIZES if s < size and size % s == 0)]
        for size in (m, n)
    )
    pairs = itertools.product(heights, widths)
    return iter(sorted(pairs, key=lambda pair: -pair[0] * pair[1]))


def _blocks(bad: Mask, rows: int, columns: int) -> str:
    """Describes a grid of wrong blocks."""
    if bad.all():
        return "everything is wrong"
    bad_rows, bad_columns = bad.any(1), bad.any(0)
    if (bad == bad_rows[:, None]).all():
        return _span("rows", bad_rows, rows)
    if (bad == bad_columns).all():
        return _span("columns", bad_columns, columns)
    i, j = np.argwhere(bad)[0]
    place = f"[{i * rows}:{(i + 1) * rows}, {j * columns}:{(j + 1) * columns}]"
    if np.count_nonzero(bad) == 1:
        return f"the whole block {place} is wrong, and only that"
    return (
        f"{np.count_nonzero(bad)} of {bad.size} whole blocks of {rows}x{columns} are"
        f" wrong, the first {place}"
    )


def _span(what: str, bad: Mask, size: int) -> str:
    """Describes wrong rows or columns, `size` of them per entry of `bad`."""
    places = np.flatnonzero(bad)
    first, last = places[0], places[-1] + 1
    if len(places) == last - first:
        which = "last " if last == len(bad) else "first " if first == 0 else ""
        number = len(places) * size
        return f"the {which}{number} {what} ({first * size}:{last * size}) are wrong"
    return f"{len(places)} of {len(bad)} groups of {size} {what} are wrong"


def _index(place: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, place))}]"
