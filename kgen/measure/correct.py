"""Whether a kernel is right on this device: the first thing that is measured.

At the very size that is then timed, where a float64 product of everything on the host
would take longer than everything else: small integers are compared with XLA's product
bit for bit, normal values with float64 in some of the rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kgen import float8
from kgen.layouts import logical, stored
from kgen.measure.problem import Problem
from kgen.verify import compare, repeats
from kgen.verify.explain import LevelError

RUNS = 20
ROWS = 32
LARGEST_INTEGER = 3


def check(
    function: Callable[..., Any],
    problem: Problem,
    *,
    runs: int = RUNS,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[str, ...]:
    """Runs a kernel on JAX's default device and compares what it returns.

    Args:
      function: Takes A and B.
      problem: What it computes.
      runs: How often it must return the same bits.
      stage: Told what is done.

    Returns:
      What was proven, a line each.

    Raises:
      LevelError: the kernel is not right.
    """
    stage("compiling")
    kernel = repeats.Poisoned(function, structs(problem))
    _check_result(kernel.results, problem)
    stage("small integers")
    operands = integers(problem)
    (product,) = kernel(*operands)
    if wrong := differs_from_xla(product, operands, problem):
        raise LevelError(f"on small integers: {wrong}")
    stage("normal values")
    operands = normal(problem)
    (product, *_), difference = repeats.repeat(kernel, operands, runs)
    if wrong := _differs_from_float64(product, operands, problem):
        raise LevelError(f"on normal values: {wrong}")
    if difference is not None:
        raise LevelError(f"on normal values: {difference}; {repeats.A_RACE}")
    rows = len(sampled_rows(problem.shape[0]))
    return (
        "small integers as XLA's product, bit for bit",
        f"normal values within the tolerance of float64 in {rows} rows",
        f"the same bits in {runs} runs, into memory that was NaN",
    )


def structs(problem: Problem) -> tuple[Any, Any]:
    """Returns `jax.ShapeDtypeStruct`s of A and B."""
    import jax

    struct: Any = jax.ShapeDtypeStruct
    a, b = map(struct, problem.operand_shapes, problem.operand_dtypes)
    return a, b


def integers(problem: Problem) -> tuple[Any, Any]:
    """Returns operands of independent integers in [-3, 3].

    Those of 8-bit floats are -1, 0 and 1, as `kgen.float8` says.
    """
    import jax

    def draw(key: Any, shape: tuple[int, int], dtype: str) -> Any:
        if dtype in float8.FLOAT8:
            share = float8.share_of_ones(problem.shape[2])
            position = jax.random.uniform(key, shape)
            ones = (position < share / 2).astype(dtype)
            return ones - (position > 1 - share / 2).astype(dtype)
        values = jax.random.randint(key, shape, -LARGEST_INTEGER, LARGEST_INTEGER + 1)
        return values.astype(dtype)

    return _draw(draw, problem, seed=1)


def normal(problem: Problem) -> tuple[Any, Any]:
    """Returns operands of independent standard normal values."""
    import jax

    def draw(key: Any, shape: tuple[int, int], dtype: str) -> Any:
        return jax.random.normal(key, shape, np.float32).astype(dtype)

    return _draw(draw, problem, seed=2)


def _draw(draw: Callable[..., Any], problem: Problem, *, seed: int) -> tuple[Any, Any]:
    import jax

    keys = jax.random.split(jax.random.key(seed), 2)
    jitted = jax.jit(draw, static_argnums=(1, 2))
    a, b = map(jitted, keys, problem.operand_shapes, problem.operand_dtypes)
    return a, b


def differs_from_xla(
    product: Any, operands: tuple[Any, Any], problem: Problem
) -> str | None:
    """Says what is wrong with the product of small integers; None if nothing is."""
    import jax
    import jax.numpy as jnp

    def exact(a: Any, b: Any) -> Any:
        a, b = logical(problem.layout, a, b)
        product = jnp.matmul(a, b, preferred_element_type=jnp.float32)
        return stored(problem.out_order, product)

    def count(product: Any, expected: Any) -> Any:
        return jnp.sum(product != expected.astype(product.dtype))

    expected = jax.jit(exact)(*operands)
    if not int(jax.jit(count)(product, expected)):
        return None
    magnitude = np.array([_largest_sum(problem)])
    return compare.exact(
        np.asarray(product).astype(np.float64),
        np.asarray(expected).astype(np.float64),
        magnitude,
        out_dtype=problem.out_dtype,
        operand_dtype=problem.operand_dtype,
    )


def _largest_sum(problem: Problem) -> float:
    """Returns what no partial sum of products of integers is larger than."""
    k = problem.shape[2]
    if problem.operand_dtype in float8.FLOAT8:
        # Half of it is what `integers` aims at, give or take a hundredth.
        return min(k, float8.EXACT_SUM)
    return LARGEST_INTEGER**2 * k


def sampled_rows(m: int) -> Any:
    """Returns the rows that are compared with float64: both ends and some between."""
    if m <= ROWS:
        return np.arange(m)
    between = np.random.default_rng(m).choice(m - 2, ROWS - 2, replace=False) + 1
    return np.sort(np.concatenate([[0, m - 1], between]))


def _differs_from_float64(
    product: Any, operands: tuple[Any, Any], problem: Problem
) -> str | None:
    rows = sampled_rows(problem.shape[0])
    a, b = logical(problem.layout, *operands)
    a64 = np.asarray(a[..., rows, :]).astype(np.float64)
    b64 = np.asarray(b).astype(np.float64)
    expected = a64 @ b64
    allowed = compare.tolerance(
        expected,
        np.abs(a64) @ np.abs(b64),
        reduction=problem.shape[2],
        operand_dtype=problem.operand_dtype,
        out_dtype=problem.out_dtype,
        on_gpu=True,
    )
    # The order is its own inverse: this is C as [m, n].
    c = stored(problem.out_order, product)
    found = np.asarray(c[..., rows, :]).astype(np.float64)
    wrong = compare.close(found, expected, allowed, out_dtype=problem.out_dtype)
    if wrong is None:
        return None
    return f"in {len(rows)} rows, {rows[0]} to {rows[-1]}, counted from 0: {wrong}"


def _check_result(results: Any, problem: Problem) -> None:
    import jax

    leaves = jax.tree.leaves(results)
    wanted = (problem.out_dtype, problem.out_shape)
    found = [(str(leaf.dtype), tuple(leaf.shape)) for leaf in leaves]
    if found != [wanted]:
        told = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in found) or "nothing"
        raise LevelError(f"returns {told}, expected {wanted[0]}{[*wanted[1]]}")
