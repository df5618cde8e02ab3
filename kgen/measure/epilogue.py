"""Kernels with an epilogue or scales: what they take beside A and B, and are they right.

What is compared is what `kgen.verify.epilogue` says of the product in some rows, and
all elements with the module's own `reference` in XLA where small integers leave nothing
to round.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kgen.epilogue import numerics
from kgen.epilogue.steps import FLOAT32, Step, saves, with_argument
from kgen.float8 import FLOAT8
from kgen.measure import scales
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
from kgen.verify.epilogue import Epilogue
from kgen.verify.explain import LevelError
from kgen.verify.floats import Array
from kgen.verify.request import Request
from kgen.verify.scales import apply

INTEGERS_SPREAD = 4.0
"""Standard deviation of a product of two of the integers."""


def structs(problem: Problem, steps: Sequence[Step]) -> list[Any]:
    """Returns `jax.ShapeDtypeStruct`s of the arguments of the steps."""
    import jax

    struct: Any = jax.ShapeDtypeStruct
    return [struct(_shape(step, problem), step.dtype) for step in with_argument(steps)]


def extend(
    sets: Sequence[tuple[Any, ...]], problem: Problem, steps: Sequence[Step]
) -> list[tuple[Any, ...]]:
    """Returns sets of operands with arguments for the epilogue, on JAX's device."""
    import jax

    keys = jax.random.split(jax.random.key(3), len(sets))

    def draw(key: Any) -> tuple[Any, ...]:
        each = jax.random.split(key, len(steps))
        return tuple(
            jax.random.normal(k, _shape(step, problem), FLOAT32).astype(step.dtype)
            for k, step in zip(each, steps, strict=True)
            if step.argument
        )

    drawn = [jax.jit(draw)(key) for key in keys]
    wait: Any = jax.block_until_ready
    return [(*pair, *more) for pair, more in zip(sets, wait(drawn), strict=True)]


def _shape(step: Step, problem: Problem) -> tuple[int, ...]:
    m, n, _ = problem.shape
    return step.shape(m, n, problem.batch)


class EpilogueCheck(Check):
    """Whether kernels are right that have an epilogue, or scales, or both."""

    def __init__(
        self, problem: Problem, request: Request, reference: Callable[..., Any]
    ) -> None:
        """Computes what they must return.

        Args:
          problem: The product.
          request: What is asked of the kernels.
          reference: What they compute, in plain JAX.
        """
        import jax

        steps = request.steps
        drawn = _draw(problem, request, exact=True), _draw(
            problem, request, exact=False
        )
        whole, some = (each.operands for each in drawn)
        super().__init__(problem, whole, some, outputs=1 + saves(steps))
        self._wanted = jax.tree.leaves(jax.jit(reference)(*whole))
        self._request = request
        self._drawn: tuple[_Drawn, ...] = drawn
        self._rows: list[Rows] = []

    def compute(self) -> None:
        """Computes some rows of the outputs."""
        for each in self._drawn:
            self._rows.append(each.rows(self._problem, self._request))
        self._drawn = ()

    def _check_integers(self, outputs: Sequence[Any]) -> str:
        self._rows[0].check(outputs, "small integers")
        if not self._rows[0].exact:
            rows = len(sampled_rows(self._problem.shape[0]))
            return f"small integers within the tolerance of float64 in {rows} rows"
        _check_all(outputs, self._wanted)
        return "small integers as the reference in XLA, bit for bit"

    def _check_normal(self, outputs: Sequence[Any]) -> None:
        self._rows[1].check(outputs, "normal values")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Drawn:
    """What kernels are tried with.

    Attributes:
      operands: All that the function takes.
      factors: The sampled rows of A and all of B, as [..., k, n].
      of_blocks: Scales of A and B, if there are any.
      arguments: Arguments of the epilogue by name, in float64.
      exact: Whether the product is exact.
    """

    operands: Sequence[Any]
    factors: tuple[Array, Array]
    of_blocks: tuple[Array, ...]
    arguments: Mapping[str, Array]
    exact: bool

    def rows(self, problem: Problem, request: Request) -> Rows:
        """Returns some rows of what they must return."""
        steps, m = request.steps, problem.shape[0]
        axes = {step.argument: step.axes for step in with_argument(steps)}
        chain = Epilogue(
            steps=steps,
            arguments={
                name: _in_rows(values, axes[name], m)
                for name, values in self.arguments.items()
            },
            approximates=problem.out_dtype != FLOAT32,
        )
        scaled = _scaled(self.factors, self.of_blocks, problem, request)
        product, magnitude = in_float64(*scaled)
        return Rows(problem, request, chain, product, magnitude, exact=self.exact)


def _draw(problem: Problem, request: Request, *, exact: bool) -> _Drawn:
    """Returns what kernels are tried with: small integers if `exact`."""
    import jax

    steps, (m, n, k) = request.steps, problem.shape
    a, b = integers(problem) if exact else normal(problem)
    spread = INTEGERS_SPREAD if exact else 1.0
    if problem.operand_dtype not in FLOAT8:  # Whose smallest are not so small.
        a = a * np.float32(numerics.shrink(steps, spread * k**0.5)).astype(a.dtype)
    rng = np.random.default_rng([m, n, k, exact])
    arguments = numerics.draw(steps, m, n, rng, integers=exact, batch=problem.batch)
    of_blocks = scales.draw(problem, request, 0, integers=exact)
    return _Drawn(
        operands=[
            *(a, b, *scales.on_device(of_blocks)),
            *map(jax.device_put, numerics.arrays(arguments, steps)),
        ],
        factors=factors((a, b), problem),
        of_blocks=of_blocks,
        arguments=arguments,
        exact=exact,
    )


def _in_rows(values: Array, axes: str, m: int) -> Array:
    """Returns what of an argument the sampled rows take."""
    if "m" not in axes:
        return values
    rows: Array = np.take(values, sampled_rows(m), axis=axes.index("m") - len(axes))
    return rows


def _scaled(
    pair: tuple[Array, Array],
    of_blocks: tuple[Array, ...],
    problem: Problem,
    request: Request,
) -> tuple[Array, Array]:
    """Returns rows of A, and B as [k, n], multiplied with their scales."""
    if not of_blocks:
        return pair
    a, b = (each.astype(np.float64) for each in pair)
    of_a, of_b = of_blocks
    a, b = apply(request, a, b.mT, (of_a[sampled_rows(problem.shape[0])], of_b))
    return a, b.mT


def _check_all(outputs: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Compares every element with what the reference makes in XLA."""
    import jax
    import jax.numpy as jnp

    def count(found: Any, wanted: Any) -> Any:
        return jnp.sum(found != wanted)

    for index, (found, expected) in enumerate(zip(outputs, wanted, strict=True)):
        if wrong := int(jax.jit(count)(found, expected)):
            raise LevelError(
                f"on small integers: {wrong} of {found.size} elements of output {index}"
                " differ from the module's reference"
            )
