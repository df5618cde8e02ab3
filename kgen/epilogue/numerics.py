"""What an epilogue makes of a product, in float64, and how far off a kernel may be.

numpy alone. A kernel computes every step in float32. With u = 2^-24, an error e of a
value x becomes, to first order and with f the step:

    e * L + |f(x)| * r

where L is a bound of f's slope and r what the step itself is off by: u for what rounds
once, more for what the hardware approximates. Where every value is exact in float32 and
no step is transcendental, nothing is rounded in any order, and bits can be compared.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kgen.epilogue.steps import TRANSCENDENTAL, Step, with_argument
from kgen.verify.floats import FORMATS, Array

U = FORMATS["float32"].unit_roundoff
EXPONENT_UNITS = 8.0
"""exp is off by some roundings of its argument; ex2.approx itself by 2^-22 (PTX ISA)."""
TANH_APPROX = 2.0**-10.9
"""Largest relative error of tanh.approx.f32: 2^-10.987 (PTX ISA)."""
TANH_ACCURATE = 2.0**-20
ERF_UNITS = 16.0
"""Formula 7.1.26 of Abramowitz and Stegun is off by up to 2^-22.6, and its terms round."""
TANH_UNITS = 4.0
UNDERFLOW = 2.0**-120
"""Below that exp(x) over- or underflows in float32."""
STEEPEST = 1.13
"""Largest slope of gelu; that of silu is smaller."""
LARGEST_INTEGER = 3
FACTORS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """One output of an epilogue.

    Attributes:
      values: What it holds, exactly, before it is rounded to the output's dtype.
      error: By how much a right kernel may be off before that; infinite where a step
        overflows its dtype, so that nothing can be said.
      exact: Whether it may not be off at all.
    """

    values: Array
    error: Array
    exact: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class _State:
    x: Array
    error: Array
    exact: bool

    def to(self, x: Array, error: Array, *, exact: bool = True) -> "_State":
        representable = bool((x == FORMATS["float32"].round(x)).all())
        return _State(x=x, error=error, exact=self.exact and exact and representable)


def evaluate(
    steps: Sequence[Step],
    product: Array,
    error: Array,
    arguments: Mapping[str, Array],
    *,
    exact: bool,
    approximates: bool,
) -> tuple[Output, ...]:
    """Returns the outputs for a product: the result, and what is saved.

    Args:
      steps: The epilogue.
      product: [m, n], exact.
      error: How far off a kernel's accumulator may be.
      arguments: The arguments of the steps by name.
      exact: Whether the accumulator is exact, in whatever order it is summed.
      approximates: Whether tanh is the hardware's.
    """
    state = _State(x=product, error=error, exact=exact)
    saved: list[_State] = []
    for step in steps:
        if step.op == "save":
            saved.append(state)
            continue
        with np.errstate(invalid="ignore"):  # Of infinities, where a cast overflows.
            state = _apply(step, state, arguments.get(step.argument), approximates)
    return tuple(
        Output(values=each.x, error=each.error, exact=each.exact)
        for each in (state, *saved)
    )


def _apply(
    step: Step, state: _State, argument: Array | None, approximates: bool
) -> _State:
    if step.op in TRANSCENDENTAL:
        return _transcendental(step, state, approximates)
    return _LINEAR[step.op](step, state, argument)


def _scale(step: Step, state: _State, argument: Array | None) -> _State:
    factor = _single(step.value or 0.0) if argument is None else spread(step, argument)
    x = state.x * factor
    return state.to(x, state.error * np.abs(factor) + U * np.abs(x))


def _add(step: Step, state: _State, argument: Array | None) -> _State:
    assert argument is not None, f"{step.op} takes an argument"
    beta = 1.0 if step.value is None else _single(step.value)
    term = beta * spread(step, argument)
    x = state.x + term
    return state.to(x, state.error + U * (np.abs(x) + np.abs(term)))


def _clamp(step: Step, state: _State, _: Array | None) -> _State:
    low = -np.inf if step.low is None else _single(step.low)
    high = np.inf if step.high is None else _single(step.high)
    return state.to(np.clip(state.x, low, high), state.error)


def _relu(_: Step, state: _State, __: Array | None) -> _State:
    return state.to(np.maximum(state.x, 0.0), state.error)


def _cast(step: Step, state: _State, _: Array | None) -> _State:
    narrow = FORMATS[step.dtype]
    x = narrow.round(state.x)
    if state.exact:
        return state.to(x, np.where(np.isinf(x), np.inf, state.error))
    # Of two values that are close together each may be rounded in another direction.
    rounding = 2 * narrow.unit_roundoff * (np.abs(state.x) + state.error)
    error = state.error + rounding + narrow.smallest
    overflow = np.isinf(narrow.round(np.abs(state.x) + error))
    return state.to(state.x, np.where(overflow, np.inf, error), exact=False)


_LINEAR: dict[str, Callable[[Step, _State, Array | None], _State]] = {
    "scale": _scale,
    "scale_rows": _scale,
    "scale_columns": _scale,
    "bias": _add,
    "residual": _add,
    "clamp": _clamp,
    "relu": _relu,
    "cast": _cast,
}


def _transcendental(step: Step, state: _State, approximates: bool) -> _State:
    x, error = state.x, state.error
    tanh_error = TANH_APPROX if approximates else TANH_ACCURATE
    if step.op == "tanh":
        result = np.tanh(x)
        error = error + np.abs(result) * tanh_error
    elif step.op == "softcap":
        cap = _single(step.value or 1.0)
        result = cap * np.tanh(x / cap)
        error = error + np.abs(result) * (tanh_error + 4 * U)
    elif step.op == "sigmoid":
        result = sigmoid(x)
        error = error / 4 + result * _of_exponent(x) + UNDERFLOW
    elif step.approximate == "erf":
        result = x * normal_share(x)
        error = STEEPEST * error + np.abs(x) * ERF_UNITS * U
    else:
        exponent = x
        if step.op == "gelu":
            exponent = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        result = x * sigmoid(exponent)
        rounding = np.abs(result) * (_of_exponent(exponent) + 2 * U)
        error = STEEPEST * error + rounding + np.abs(x) * UNDERFLOW
        if step.op == "gelu":  # 1 + tanh(u) cancels where u is below zero.
            error = error + np.abs(x) * TANH_UNITS * U
    return state.to(result, error, exact=False)


def _of_exponent(exponent: Array) -> Array:
    """Returns the relative error of 1 / (1 + exp(-exponent))."""
    # exp(x) is off by as much as its argument, which has some roundings behind it.
    relative: Array = U * EXPONENT_UNITS * (np.minimum(np.abs(exponent), 128.0) + 4)
    return relative


def sigmoid(x: Array) -> Array:
    """Returns 1 / (1 + exp(-x))."""
    # Neither half overflows.
    small = np.exp(-np.abs(x))
    result: Array = np.where(x >= 0, 1 / (1 + small), small / (1 + small))
    return result


def normal_share(x: Array) -> Array:
    """Returns (1 + erf(x / sqrt(2))) / 2."""
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    share: Array = erfc(-x / math.sqrt(2)) / 2
    return share


def _single(value: float) -> float:
    """Returns a constant as float32 holds it."""
    return float(np.float32(value))


def spread(step: Step, argument: Array) -> Array:
    """Returns an argument in a shape that broadcasts over [..., m, n]."""
    missing = {"m": (-1,), "n": (-2,), "": (-2, -1)}
    spread: Array = np.expand_dims(argument, missing.get(step.axes, ()))
    return spread


def draw(
    steps: Sequence[Step],
    m: int,
    n: int,
    rng: np.random.Generator,
    *,
    integers: bool,
    batch: tuple[int, ...] = (),
) -> dict[str, Array]:
    """Draws the arguments of the steps, each held exactly by its dtype.

    Args:
      steps: The epilogue.
      m: Rows of the output.
      n: Columns of the output.
      rng: Where the values come from.
      integers: Whether products and sums with them shall be exact: scales are powers
        of two, all else small integers.
      batch: Leading dimensions of all of them.
    """
    return {
        step.argument: _draw(step, step.shape(m, n, batch), rng, integers=integers)
        for step in with_argument(steps)
    }


def _draw(
    step: Step, shape: tuple[int, ...], rng: np.random.Generator, *, integers: bool
) -> Array:
    if not integers:
        return FORMATS[step.dtype].round(rng.standard_normal(shape))
    if step.op.startswith("scale"):
        return np.asarray(rng.choice(FACTORS, shape))
    low, high = -LARGEST_INTEGER, LARGEST_INTEGER + 1
    return np.asarray(rng.integers(low, high, shape), np.float64)


def shrink(steps: Sequence[Step], typical: float) -> float:
    """Returns a power of two for A, so that the product does not saturate a step.

    Where tanh(x) is 1, an x that is twice as large as it should be shows nowhere.

    Args:
      steps: The epilogue.
      typical: Typical size of an element of the product.
    """
    saturates = any(step.op in (*TRANSCENDENTAL, "clamp") for step in steps)
    return 2.0 ** -round(math.log2(max(typical, 1.0))) if saturates else 1.0


def arrays(values: Mapping[str, Array], steps: Sequence[Step]) -> list[Any]:
    """Returns the arguments in their dtypes and order, as the function takes them."""
    # JAX has registered bfloat16 with numpy.
    return [
        values[step.argument].astype(np.dtype(step.dtype))
        for step in with_argument(steps)
    ]
