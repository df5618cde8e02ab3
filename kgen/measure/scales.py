"""Scales of blocks, as kernels that are measured take them beside A and B."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kgen.epilogue.steps import FLOAT32
from kgen.measure.problem import Problem
from kgen.verify import scales
from kgen.verify.floats import Array
from kgen.verify.request import Request, RequestCase


def structs(problem: Problem, request: Request) -> list[Any]:
    """Returns `jax.ShapeDtypeStruct`s of A's and B's scales; none if there are none."""
    import jax

    struct: Any = jax.ShapeDtypeStruct
    return [struct(s, FLOAT32) for s in scales.shapes(request, _case(problem))]


def extend(
    sets: Sequence[tuple[Any, ...]], problem: Problem, request: Request
) -> list[tuple[Any, ...]]:
    """Returns sets of operands with scales, on JAX's device."""
    return [
        (*pair, *on_device(draw(problem, request, seed, integers=False)))
        for seed, pair in enumerate(sets)
    ]


def draw(
    problem: Problem, request: Request, seed: int, *, integers: bool
) -> tuple[Array, ...]:
    """Returns scales in float64, each of which float32 holds."""
    rng = np.random.default_rng([*problem.shape, seed])
    return scales.draw(request, _case(problem), rng, integers=integers)


def on_device(drawn: Sequence[Array]) -> list[Any]:
    """Returns scales in float32 on JAX's device."""
    import jax

    return [jax.device_put(each.astype(FLOAT32)) for each in drawn]


def _case(problem: Problem) -> RequestCase:
    m, n, k = problem.shape
    return RequestCase(m=m, n=n, k=k)
