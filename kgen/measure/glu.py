"""Gated linear units: what they are given, whether they are right, and XLA's forms.

XLA has no such kernel. It may be given two products, or one with both weights joined side
by side beforehand; and it may keep the products in float32 or round them to the output's
dtype, which moves half the bytes. All of them are measured: the fastest is the peer.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kgen.epilogue.steps import FLOAT32
from kgen.layouts import logical
from kgen.measure.correct import (
    Check,
    factors,
    in_float64,
    integers,
    normal,
    sampled_rows,
)
from kgen.measure.problem import Problem
from kgen.measure.rows import Rows
from kgen.measure.timing import Compiled, Sets, compile_each
from kgen.verify import glu
from kgen.verify.explain import LevelError
from kgen.verify.request import Request

type Factors = tuple[tuple[Any, Any], tuple[Any, Any]]

NEAR = 0.05
"""What all elements may be off from XLA's, beside as much of their size. Outputs are
about 1, and those of a wrong tile are others."""


def extend(sets: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Returns sets of x and a weight with a second one: the first turned around."""
    return [(x, weight, weight[::-1, ::-1]) for x, weight in sets]


def xla(request: Request, problem: Problem, sets: Sets) -> dict[str, Compiled]:
    """Returns XLA's forms, ready to be timed, by what they are."""
    found = {}
    for words, dtype in (("", FLOAT32), (", rounded", problem.out_dtype)):
        two, joined = _forms(request, problem, dtype)
        found[f"two products{words}"] = compile_each(two, sets)
        found[f"joined weights{words}"] = _with_own_sets(
            joined, [_joined(problem, *operands) for operands in sets]
        )
    return found


class GluCheck(Check):
    """Whether gated linear units are right."""

    def __init__(
        self, problem: Problem, request: Request, reference: Callable[..., Any]
    ) -> None:
        """Computes what they must return.

        Args:
          problem: One of the products.
          request: What is asked of the kernels.
          reference: What they compute, in plain JAX.
        """
        import jax

        whole = _scaled(integers(problem), problem, spread=4.0)
        some = _scaled(normal(problem), problem, spread=1.0)
        super().__init__(problem, whole, some)
        self._wanted = jax.jit(reference)(*whole)
        self._request = request
        self._factors = [
            (_factors(each, problem), each is whole) for each in (whole, some)
        ]
        self._rows: list[Rows] = []

    def compute(self) -> None:
        """Computes some rows of the output."""
        for each, exact in self._factors:
            self._rows.append(_rows(each, self._problem, self._request, exact=exact))
        self._factors.clear()

    def _check_integers(self, outputs: Sequence[Any]) -> str:
        self._rows[0].check(outputs, "small integers")
        _check_all(outputs, self._wanted)
        rows = len(sampled_rows(self._problem.shape[0]))
        return (
            "all elements of small integers near the reference's in XLA,"
            f" {rows} rows within the tolerance of float64"
        )

    def _check_normal(self, outputs: Sequence[Any]) -> None:
        self._rows[1].check(outputs, "normal values")


@dataclasses.dataclass
class _WithOwnSets:
    """Runs on sets of its own whatever it is given, as a compiled function would.

    JAX's profiler takes what has the methods of `jax.stages.Wrapped`.
    """

    compiled: Compiled
    sets: Sets

    def __call__(self, _: Sets) -> Any:
        return self.compiled.run(self.sets)

    def trace(self, *_: Any) -> Any:
        raise NotImplementedError("it is compiled already")

    def lower(self, *_: Any) -> Any:
        raise NotImplementedError("it is compiled already")


def _with_own_sets(function: Callable[..., Any], sets: Sets) -> Compiled:
    compiled = compile_each(function, sets)
    return Compiled(run=_WithOwnSets(compiled, list(sets)), calls=compiled.calls)


def _forms(
    request: Request, problem: Problem, dtype: str
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns two products and one, both of results in `dtype`."""
    import jax
    import jax.numpy as jnp

    activation = glu.activation_of(request)

    def product(x: Any, weight: Any) -> Any:
        x, weight = logical(problem.layout, x, weight)
        return jnp.matmul(x, weight, preferred_element_type=dtype)

    def gated(gate: Any, up: Any) -> Any:
        gate, up = gate.astype(FLOAT32), up.astype(FLOAT32)
        passed = jax.nn.silu(gate) if activation == "silu" else jax.nn.gelu(gate)
        return (passed * up).astype(problem.out_dtype)

    def two(x: Any, w_gate: Any, w_up: Any) -> Any:
        return gated(product(x, w_gate), product(x, w_up))

    def joined(x: Any, weights: Any) -> Any:
        return gated(*jnp.split(product(x, weights), 2, axis=1))

    return two, joined


def _joined(problem: Problem, x: Any, w_gate: Any, w_up: Any) -> tuple[Any, Any]:
    """Returns x, and the weights side by side along n."""
    import jax
    import jax.numpy as jnp

    axis = 0 if problem.layout[1] == "t" else 1
    wait: Any = jax.block_until_ready
    return x, wait(jnp.concatenate([w_gate, w_up], axis=axis))


def _scaled(
    pair: tuple[Any, Any], problem: Problem, *, spread: float
) -> tuple[Any, Any, Any]:
    """Returns x and both weights, with products of about 1.

    Where the activation is flat, or the line x, much would not show.
    """
    x, weight = pair
    power = 2.0 ** -round(math.log2(spread * math.sqrt(problem.shape[2])))
    ((x, gate, up),) = extend([(x * np.array(power, x.dtype), weight)])
    return x, gate, up


def _factors(operands: Sequence[Any], problem: Problem) -> Factors:
    """Returns some rows of x and all of either weight, once for each weight."""
    x, *weights = operands
    gate, up = (factors((x, weight), problem) for weight in weights)
    return gate, up


def _rows(pairs: Factors, problem: Problem, request: Request, *, exact: bool) -> Rows:
    """Returns some rows of what a right kernel makes of the factors of both products."""
    (product, magnitude), (up, up_magnitude) = (in_float64(*pair) for pair in pairs)
    gate = glu.Gate(
        activation=glu.activation_of(request),
        up=up,
        gate_magnitude=magnitude,
        up_magnitude=up_magnitude,
        approximates=problem.out_dtype != FLOAT32,
    )
    return Rows(problem, request, gate, product, magnitude, exact=exact)


def _check_all(outputs: Sequence[Any], wanted: Any) -> None:
    """Compares every element with what the reference makes in XLA: no tile is amiss."""
    import jax
    import jax.numpy as jnp

    def count(found: Any, wanted: Any) -> Any:
        found, wanted = found.astype(FLOAT32), wanted.astype(FLOAT32)
        near = jnp.abs(found - wanted) <= NEAR + NEAR * jnp.abs(wanted)
        return jnp.sum(~near)  # NaN is near nothing.

    (found,) = outputs
    if wrong := int(jax.jit(count)(found, wanted)):
        raise LevelError(
            f"on small integers: {wrong} of {found.size} elements are far from the"
            " module's reference"
        )
