"""Kernels with scales of blocks: what they are given beside A and B, and whether right.

XLA's peer is the product without scales: no formulation of them is as fast as that.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kgen.measure import correct, peers
from kgen.measure.problem import Problem
from kgen.verify import compare, repeats, scales
from kgen.verify.explain import LevelError
from kgen.verify.request import Request, RequestCase

FLOAT32 = "float32"


def all_structs(problem: Problem, request: Request) -> list[Any]:
    """Returns `jax.ShapeDtypeStruct`s of everything that the function takes."""
    import jax

    struct: Any = jax.ShapeDtypeStruct
    of_blocks = [struct(s, FLOAT32) for s in scales.shapes(request, _case(problem))]
    return [*correct.structs(problem), *of_blocks]


def extend(
    sets: Sequence[tuple[Any, ...]], problem: Problem, request: Request
) -> list[tuple[Any, ...]]:
    """Returns sets of operands with scales, on JAX's device."""
    return [
        (*pair, *_draw(problem, request, seed, integers=False))
        for seed, pair in enumerate(sets)
    ]


def unscaled(problem: Problem) -> Callable[..., Any]:
    """Returns XLA's product of A and B, which takes scales and leaves them alone."""
    product = peers.xla(problem)
    return lambda a, b, *_: product(a, b)


def check(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    problem: Problem,
    request: Request,
    *,
    runs: int = correct.RUNS,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[str, ...]:
    """Runs a kernel with scales on JAX's default device and compares its output.

    Args:
      function: Takes A, B and the scales.
      reference: The same in plain JAX, in float32.
      problem: The product.
      request: What is asked of the kernel.
      runs: How often it must return the same bits.
      stage: Told what is done.

    Returns:
      What was proven, a line each.

    Raises:
      LevelError: the kernel is not right.
    """
    import jax

    stage("compiling")
    kernel = repeats.Poisoned(function, all_structs(problem, request))
    stage("small integers")
    operands = (
        *correct.integers(problem),
        *_draw(problem, request, 0, integers=True),
    )
    (found,) = kernel(*operands)
    wrong = int((found != jax.jit(reference)(*operands)).sum())
    if wrong:
        raise LevelError(
            f"on small integers: {wrong} of {found.size} elements differ from the"
            " module's reference"
        )
    stage("normal values")
    operands = (*correct.normal(problem), *_draw(problem, request, 0, integers=False))
    (found, *_), difference = repeats.repeat(kernel, operands, runs)
    _check_rows(found, operands, problem, request)
    if difference is not None:
        raise LevelError(f"on normal values: {difference}; {repeats.A_RACE}")
    rows = len(correct.sampled_rows(problem.shape[0]))
    return (
        "small integers as the reference in XLA, bit for bit",
        f"normal values within the tolerance of float64 in {rows} rows",
        f"the same bits in {runs} runs, into memory that was NaN",
    )


def _check_rows(
    found: Any, operands: Sequence[Any], problem: Problem, request: Request
) -> None:
    rows = correct.sampled_rows(problem.shape[0])
    a, b, a_scale, b_scale = (np.asarray(each).astype(np.float64) for each in operands)
    a, b = scales.apply(request, a[rows], b, (a_scale[rows], b_scale))
    expected = a @ b.T
    allowed = compare.tolerance(
        expected,
        np.abs(a) @ np.abs(b).T,
        reduction=problem.shape[2],
        operand_dtype=problem.operand_dtype,
        out_dtype=problem.out_dtype,
        on_gpu=True,
        promoted=request.promoted,
    )
    values = np.asarray(found[rows]).astype(np.float64)
    wrong = compare.close(values, expected, allowed, out_dtype=problem.out_dtype)
    if wrong is not None:
        place = f"{len(rows)} rows, {rows[0]} to {rows[-1]}, counted from 0"
        raise LevelError(f"on normal values: in {place}: {wrong}")


def _draw(
    problem: Problem, request: Request, seed: int, *, integers: bool
) -> list[Any]:
    import jax

    rng = np.random.default_rng([*problem.shape, seed])
    drawn = scales.draw(request, _case(problem), rng, integers=integers)
    return [jax.device_put(each.astype(FLOAT32)) for each in drawn]


def _case(problem: Problem) -> RequestCase:
    m, n, k = problem.shape
    return RequestCase(m=m, n=n, k=k)
