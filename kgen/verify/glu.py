"""What a gated linear unit makes of its operands, in float64."""

import dataclasses
import json
from collections.abc import Iterator, Sequence

import numpy as np

from kgen.epilogue import numerics
from kgen.epilogue.numerics import Output, U
from kgen.epilogue.steps import FLOAT32, Step
from kgen.verify.floats import Array
from kgen.verify.request import Request

STEEPEST = 1.13
"""Largest slope of silu and gelu."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gate:
    """What becomes of the product with the first weight.

    Attributes:
      activation: `silu` or `gelu`.
      up: The product with the second weight.
      gate_magnitude: The sums of absolute values of the first product's terms.
      up_magnitude: Those of the second.
      approximates: Whether exponentials are the hardware's.
    """

    activation: str
    up: Array
    gate_magnitude: Array
    up_magnitude: Array
    approximates: bool

    def outputs(
        self,
        product: Array,
        error: Array,
        *,
        exact: bool,
    ) -> tuple[Output, ...]:
        """Returns the output for a product that is off by at most `error`."""
        passed = self._activated(product, error, exact=exact)
        # Both sums are as long, and off by a share of their terms' sizes.
        share = error / np.maximum(self.gate_magnitude, np.finfo(np.float64).tiny)
        up_error = share * self.up_magnitude
        values = passed.values * self.up
        total = (
            passed.error * (np.abs(self.up) + up_error)
            + np.abs(passed.values) * up_error
            + U * np.abs(values)
        )
        return (Output(values=values, error=total, exact=False),)

    def suspects(self, product: Array) -> Iterator[tuple[str, Array]]:
        """Yields the results of well-known faults; none, since bits are not compared."""
        yield from ()

    def _activated(self, product: Array, error: Array, *, exact: bool) -> Output:
        approximate = "tanh" if self.activation == "gelu" else ""
        step = Step(op=self.activation, approximate=approximate)
        steps: Sequence[Step] = (step,)
        (output,) = numerics.evaluate(
            steps, product, error, {}, exact=exact, approximates=self.approximates
        )
        return output


def activation_of(request: Request) -> str:
    """Returns the activation of a module."""
    activation: str = json.loads(request.parameters)["activation"]
    return activation


def make(request: Request, x: Array, w_gate: Array, w_up: Array) -> Gate:
    """Returns the gate for operands, the weights as [k, n]."""
    return Gate(
        activation=activation_of(request),
        up=x @ w_up,
        gate_magnitude=np.abs(x) @ np.abs(w_gate),
        up_magnitude=np.abs(x) @ np.abs(w_up),
        approximates=request.out_dtype != FLOAT32,
    )
