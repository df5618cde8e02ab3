"""Operands to measure with: independent normal values, more of them than L2 holds.

Zeros, constants and repeated values make a GPU faster than real data does, since fewer
bits toggle and the clock stays higher. Operands that lie in L2 after the first call make
what is bound by memory look faster than it is.
"""

import functools
from typing import Any

from kgen.measure.problem import Problem

BEYOND_L2 = 3
MOST_SETS = 32


def draw(problem: Problem, *, l2_bytes: int) -> list[tuple[Any, Any]]:
    """Returns sets of operands on JAX's default device.

    Args:
      problem: What is computed of them.
      l2_bytes: Size of the L2 cache.

    Returns:
      Pairs (A, B) of `jax.Array`s, the same ones for the same arguments.
    """
    import jax

    count = count_sets(problem.operand_bytes, l2_bytes)
    keys = jax.random.split(jax.random.key(0), (count, 2))
    a_normal, b_normal = map(_normal, problem.operand_dtypes)
    a_shape, b_shape = problem.operand_shapes
    sets = [(a_normal(a, a_shape), b_normal(b, b_shape)) for a, b in keys]
    wait: Any = jax.block_until_ready
    return [(a, b) for a, b in wait(sets)]


def count_sets(operand_bytes: int, l2_bytes: int) -> int:
    """Returns how many sets of operands go beyond L2 three times, within bounds."""
    return min(MOST_SETS, max(1, -(-BEYOND_L2 * l2_bytes // operand_bytes)))


@functools.cache
def _normal(dtype: str) -> Any:
    """Returns a function of key and shape."""
    import jax
    import jax.numpy as jnp

    def normal(key: Any, shape: tuple[int, int]) -> Any:
        # Drawn in float32 and rounded: drawn in a narrow dtype, few values are distinct.
        return jax.random.normal(key, shape, jnp.float32).astype(dtype)

    return jax.jit(normal, static_argnums=1)
