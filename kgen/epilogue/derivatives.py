"""What differentiating an epilogue makes of a cotangent, in float64, and how exact XLA is.

numpy alone. XLA differentiates the steps in float32 at the product that the kernel saved.
Where that is off by e, a slope is off by e times a bound of the second derivative. Where
a step has a kink within e the slope is anything between its two sides; at the kink itself
it is the mean of both, as JAX has it for `maximum` and `minimum`.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from kgen.epilogue import numerics
from kgen.epilogue.numerics import TANH_ACCURATE, U
from kgen.epilogue.steps import TRANSCENDENTAL, Step
from kgen.verify.floats import FORMATS, Array

CURVATURE = {"tanh": 0.77, "sigmoid": 0.0963, "softcap": 0.77, "silu": 0.5, "gelu": 0.9}
"""Largest second derivatives; a softcap's is that of tanh by its cap."""
SLOPE_UNITS = 16.0
CONFIDENCE = 6.0
"""Rounding errors of a sum of d terms stay below so many times sqrt(d)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bounded:
    """Values and by how much right ones may be off.

    Attributes:
      values: The values.
      error: The most that each may be off.
    """

    values: Array
    error: Array

    def rounded(self, dtype: str) -> "Bounded":
        """Returns them as `dtype` holds them: often the same for all that is right."""
        form = FORMATS[dtype]
        low = form.round(self.values - self.error)
        high = form.round(self.values + self.error)
        return Bounded(values=(low + high) / 2, error=(high - low) / 2)


def pull_back(
    steps: Sequence[Step],
    product: Bounded,
    arguments: Mapping[str, Array],
    cotangent: Array,
) -> tuple[Bounded, dict[str, Bounded]]:
    """Returns the cotangents of the product, and of the arguments by name.

    Args:
      steps: The epilogue; it saves nothing.
      product: [m, n], as it is differentiated at.
      arguments: The arguments of the steps by name.
      cotangent: [m, n], that of the output.
    """
    found = Bounded(values=cotangent, error=np.zeros_like(cotangent))
    of_arguments = {}
    states = _states(steps, product, arguments)
    for step, state in zip(reversed(steps), reversed(states), strict=True):
        if step.argument:
            of_arguments[step.argument] = _of_argument(step, state, found)
        found = _through(step, state, arguments.get(step.argument), found)
    return found, of_arguments


def _states(
    steps: Sequence[Step], product: Bounded, arguments: Mapping[str, Array]
) -> list[Bounded]:
    """Returns what every step is applied to."""
    states, state = [], product
    for step in steps:
        states.append(state)
        (after,) = numerics.evaluate(
            (step,),
            state.values,
            state.error,
            arguments,
            exact=False,
            approximates=False,
        )
        error = after.error
        if step.op not in TRANSCENDENTAL:
            narrow = FORMATS[step.dtype if step.op == "cast" else "float32"]
            settled = (state.error == 0) & (narrow.round(after.values) == after.values)
            error = np.where(settled, 0.0, error)
        state = Bounded(values=after.values, error=error)
    return states


def _of_argument(step: Step, state: Bounded, cotangent: Bounded) -> Bounded:
    """Returns the cotangent of a step's argument: a sum over what it is spread over."""
    g, error = cotangent.values, cotangent.error
    if step.op.startswith("scale"):
        terms = g * state.values
        off = error * (np.abs(state.values) + state.error) + np.abs(g) * state.error
    else:
        beta = 1.0 if step.value is None else float(np.float32(step.value))
        terms, off = beta * g, abs(beta) * error
    axes = tuple(axis for axis, name in enumerate("mn") if name not in step.axes)
    count = math.prod(g.shape[axis] for axis in axes)
    roundings = U * (min(count, CONFIDENCE * math.sqrt(count)) + 1)
    return Bounded(
        values=np.asarray(terms.sum(axes)),
        error=np.asarray(off.sum(axes) + roundings * np.abs(terms).sum(axes)),
    )


def _through(
    step: Step, state: Bounded, argument: Array | None, cotangent: Bounded
) -> Bounded:
    """Returns the cotangent of what a step is applied to."""
    g, error = cotangent.values, cotangent.error
    if step.op == "cast":
        # XLA may leave a cast to a narrower dtype and back away.
        narrow = FORMATS[step.dtype]
        kept = (error == 0) & (narrow.round(g) == g)
        off = 2 * narrow.unit_roundoff * (np.abs(g) + error) + narrow.smallest
        return Bounded(values=g, error=error + np.where(kept, 0.0, off))
    slope = _slope(step, state, argument)
    steepest = np.abs(slope.values) + slope.error
    values = g * slope.values
    rounding = np.where(values == FORMATS["float32"].round(values), 0.0, U)
    return Bounded(
        values=values,
        error=error * steepest + np.abs(g) * slope.error + rounding * np.abs(values),
    )


def _slope(step: Step, state: Bounded, argument: Array | None) -> Bounded:
    x = state.values
    if step.op in ("bias", "residual"):
        return Bounded(values=np.ones_like(x), error=np.zeros_like(x))
    if step.op.startswith("scale"):
        constant = np.asarray(np.float32(step.value or 0.0), np.float64)
        factor = constant if argument is None else numerics.spread(step, argument)
        return Bounded(values=np.zeros_like(x) + factor, error=np.zeros_like(x))
    if step.op in ("relu", "clamp"):
        low = 0.0 if step.op == "relu" else step.low
        return _between(low, step.high, state)
    values, size = _smooth(step, x)
    curvature = CURVATURE[step.op] / (step.value or 1.0)
    error = curvature * state.error + SLOPE_UNITS * (TANH_ACCURATE + U) * size
    return Bounded(values=values, error=error)


def _between(low: float | None, high: float | None, state: Bounded) -> Bounded:
    """Returns the slope of what is 1 between two limits and 0 elsewhere."""
    values = np.ones_like(state.values)
    near = np.zeros(values.shape, bool)
    for limit, sign in ((low, 1), (high, -1)):
        if limit is not None:
            inside = sign * (state.values - float(np.float32(limit)))
            values *= (np.sign(inside) + 1) / 2
            near |= (np.abs(inside) <= state.error) & (state.error > 0)
    return Bounded(values=values, error=np.where(near, 1.0, 0.0))


def _smooth(step: Step, x: Array) -> tuple[Array, Array]:
    """Returns the slope of a transcendental step, and the size of its terms."""
    one = np.ones_like(x)
    if step.op in ("tanh", "softcap"):
        return 1 - np.tanh(x / (step.value or 1.0)) ** 2, one
    if step.approximate == "erf":
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return numerics.normal_share(x) + x * density, one
    exponent, inner = x, one
    if step.op == "gelu":  # x times the sigmoid of this, by another name.
        root = 2 * math.sqrt(2 / math.pi)
        exponent = root * (x + 0.044715 * x**3)
        inner = root * (1 + 3 * 0.044715 * x * x)
    share = numerics.sigmoid(exponent)
    rising = share * numerics.sigmoid(-exponent)
    if step.op == "sigmoid":
        return rising, one
    return share + x * inner * rising, 1 + np.abs(x) * inner
