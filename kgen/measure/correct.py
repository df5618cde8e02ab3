"""Whether a kernel is right on this device: the first thing that is measured.

At the very size that is then timed, where a float64 product of everything on the host
would take longer than everything else: small integers are compared with XLA's product
bit for bit, normal values with float64 in some of the rows.
"""

import abc
from collections.abc import Callable, Sequence
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
COLUMN_ELEMENTS = 2**24
"""Elements of B that are multiplied at once on the host."""


class Check(abc.ABC):
    """Whether kernels are right at one size.

    What they must return is computed once, however many of them are checked: what takes
    the device when this is made, and the rest in `compute`.
    """

    def __init__(
        self,
        problem: Problem,
        integers: Sequence[Any],
        normal: Sequence[Any],
        *,
        outputs: int = 1,
    ) -> None:
        """Takes what kernels are tried with.

        Args:
          problem: What they compute.
          integers: Operands that are small integers.
          normal: Operands that are normal values.
          outputs: How many arrays they return.
        """
        self._problem = problem
        self._integers, self._normal = integers, normal
        self._outputs = outputs

    def __call__(
        self,
        kernel: repeats.Poisoned,
        *,
        runs: int = RUNS,
        stage: Callable[[str], None] = lambda _: None,
    ) -> tuple[str, ...]:
        """Runs a kernel on JAX's default device and compares what it returns.

        Args:
          kernel: Takes everything that its function takes.
          runs: How often it must return the same bits.
          stage: Told what is done.

        Returns:
          What was proven, a line each.

        Raises:
          LevelError: the kernel is not right.
        """
        self._check_results(kernel.results)
        self.compute()
        stage("small integers")
        proven = self._check_integers(kernel(*self._integers))
        stage("normal values")
        outputs, difference = repeats.repeat(kernel, self._normal, runs)
        self._check_normal(outputs)
        if difference is not None:
            raise LevelError(f"on normal values: {difference}; {repeats.A_RACE}")
        rows = len(sampled_rows(self._problem.shape[0]))
        return (
            proven,
            f"normal values within the tolerance of float64 in {rows} rows",
            f"the same bits in {runs} runs, into memory that was NaN",
        )

    @abc.abstractmethod
    def compute(self) -> None:
        """Computes on the host what is left, unless that is done: it takes no device."""

    @abc.abstractmethod
    def _check_integers(self, outputs: Sequence[Any]) -> str:
        """Compares what became of small integers; returns what that proves."""

    @abc.abstractmethod
    def _check_normal(self, outputs: Sequence[Any]) -> None:
        """Compares what became of normal values."""

    def _check_results(self, results: Any) -> None:
        import jax

        leaves = jax.tree.leaves(results)
        wanted = [(self._problem.out_dtype, self._problem.out_shape)] * self._outputs
        found = [(str(leaf.dtype), tuple(leaf.shape)) for leaf in leaves]
        if found != wanted:
            raise LevelError(f"returns {_told(found)}, expected {_told(wanted)}")


class ProductCheck(Check):
    """Whether kernels are right that compute a product alone."""

    def __init__(self, problem: Problem) -> None:
        """Draws operands, and multiplies the integers in XLA."""
        super().__init__(problem, integers(problem), normal(problem))
        self._product = exact_product(self._integers, problem)
        self._factors: tuple[Any, Any] | None = factors(self._normal, problem)
        self._expected: Any = None
        self._allowed: Any = None

    def compute(self) -> None:
        """Computes some rows of the product of normal values."""
        if self._factors is None:
            return
        self._expected, magnitude = in_float64(*self._factors)
        self._factors = None
        self._allowed = compare.tolerance(
            self._expected,
            magnitude,
            reduction=self._problem.shape[2],
            operand_dtype=self._problem.operand_dtype,
            out_dtype=self._problem.out_dtype,
            on_gpu=True,
        )

    def _check_integers(self, outputs: Sequence[Any]) -> str:
        (product,) = outputs
        if wrong := differs(product, self._product, self._problem):
            raise LevelError(f"on small integers: {wrong}")
        return "small integers as XLA's product, bit for bit"

    def _check_normal(self, outputs: Sequence[Any]) -> None:
        product, *_ = outputs
        dtype = self._problem.out_dtype
        found = rows_of(product, self._problem)
        wrong = compare.close(found, self._expected, self._allowed, out_dtype=dtype)
        if wrong is not None:
            place = place_of_rows(self._problem)
            raise LevelError(f"on normal values: in {place}: {wrong}")


def _told(results: Sequence[tuple[str, tuple[int, ...]]]) -> str:
    told = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in results)
    return told or "nothing"


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


def exact_product(operands: Sequence[Any], problem: Problem) -> Any:
    """Returns XLA's product of small integers in float32, as a kernel stores it."""
    import jax
    import jax.numpy as jnp

    def exact(a: Any, b: Any) -> Any:
        a, b = logical(problem.layout, a, b)
        product = jnp.matmul(a, b, preferred_element_type=jnp.float32)
        return stored(problem.out_order, product)

    return jax.jit(exact)(*operands)


def differs(product: Any, expected: Any, problem: Problem) -> str | None:
    """Says what is wrong with a product of small integers; None if nothing is.

    Args:
      product: What a kernel returned.
      expected: What `exact_product` did.
      problem: The product.
    """
    import jax
    import jax.numpy as jnp

    def count(product: Any, expected: Any) -> Any:
        return jnp.sum(product != expected.astype(product.dtype))

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


def rows_of(output: Any, problem: Problem) -> Any:
    """Returns the sampled rows of what a kernel stored, as [..., rows, n] in float64."""
    # The order is its own inverse: this is C as [m, n].
    c = stored(problem.out_order, output)
    rows = sampled_rows(problem.shape[0])
    return np.asarray(c[..., rows, :]).astype(np.float64)


def factors(operands: Sequence[Any], problem: Problem) -> tuple[Any, Any]:
    """Returns the sampled rows of A and all of B, as [..., k, n], on the host."""
    rows = sampled_rows(problem.shape[0])
    a, b = logical(problem.layout, operands[0], operands[1])
    return np.asarray(a[..., rows, :]), np.asarray(b)


def in_float64(a: Any, b: Any) -> tuple[Any, Any]:
    """Returns A @ B in float64, and the sums of absolute values of its terms.

    Some columns of B at a time, so that no other copy of all of it is made.
    """
    width = max(1, COLUMN_ELEMENTS * b.shape[-1] // b.size)
    a64 = a.astype(np.float64)
    parts = []
    for start in range(0, b.shape[-1], width):
        b64 = b[..., start : start + width].astype(np.float64)
        parts.append((a64 @ b64, np.abs(a64) @ np.abs(b64)))
    product, magnitude = (np.concatenate(each, -1) for each in zip(*parts, strict=True))
    return product, magnitude


def place_of_rows(problem: Problem) -> str:
    """Returns which rows are compared with float64, for people."""
    rows = sampled_rows(problem.shape[0])
    return f"{len(rows)} rows, {rows[0]} to {rows[-1]}, counted from 0"
