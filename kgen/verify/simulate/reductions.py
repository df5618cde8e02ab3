"""`plgpu.sum`, `max`, `min` and `prod`: reductions of values within a warpgroup."""

from collections.abc import Sequence
from typing import Any

from kgen.verify.simulate.pieces import Jax

FUNCTIONS = {
    "gpu.reduce_sum_p": "sum",
    "gpu.reduce_max_p": "max",
    "gpu.reduce_min_p": "min",
    "gpu.reduce_prod_p": "prod",
}
"""Primitives, since JAX 0.12, and what they compute."""


def interpret_reduction(
    jax: Jax,
    interpreter: Any,
    eqn: Any,
    token: Any,
    invals: Sequence[Any],
    *,
    function: str,
) -> tuple[Any, list[Any]]:
    """Computes a reduction; how it is spread over threads is only a matter of speed."""
    from jax import numpy as jnp

    del jax, interpreter
    (value,) = invals
    reduced = getattr(jnp, function)(value, axis=tuple(eqn.params["axes"]))
    return token, [reduced.astype(eqn.outvars[0].aval.dtype)]
