"""Kernels with an epilogue: what they are given beside A and B, and whether they are right.

Their peer in XLA is the module's own `reference`, compiled as a whole: XLA fuses what it
can. What is compared is what `kgen.verify.epilogue` says of the product in some rows, and
all elements with that reference where small integers leave nothing to round.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kgen.epilogue import numerics
from kgen.epilogue.steps import FLOAT32, Step, with_argument
from kgen.float8 import FLOAT8
from kgen.layouts import logical
from kgen.measure.correct import RUNS, integers, normal, sampled_rows, structs
from kgen.measure.problem import Problem
from kgen.verify import compare, repeats
from kgen.verify.epilogue import Epilogue
from kgen.verify.epilogue import check as check_outputs
from kgen.verify.explain import LevelError
from kgen.verify.floats import Array

INTEGERS_SPREAD = 4.0
"""Standard deviation of a product of two of the integers."""


def all_structs(problem: Problem, steps: Sequence[Step]) -> list[Any]:
    """Returns `jax.ShapeDtypeStruct`s of everything that the function takes."""
    import jax

    m, n, _ = problem.shape
    struct: Any = jax.ShapeDtypeStruct
    arguments = [struct(step.shape(m, n), step.dtype) for step in with_argument(steps)]
    return [*structs(problem), *arguments]


def extend(
    sets: Sequence[tuple[Any, ...]], problem: Problem, steps: Sequence[Step]
) -> list[tuple[Any, ...]]:
    """Returns sets of operands with arguments for the epilogue, on JAX's device."""
    import jax

    keys = jax.random.split(jax.random.key(3), len(sets))
    m, n, _ = problem.shape

    def draw(key: Any) -> tuple[Any, ...]:
        each = jax.random.split(key, len(steps))
        return tuple(
            jax.random.normal(k, step.shape(m, n), FLOAT32).astype(step.dtype)
            for k, step in zip(each, steps, strict=True)
            if step.argument
        )

    drawn = [jax.jit(draw)(key) for key in keys]
    wait: Any = jax.block_until_ready
    return [(*pair, *more) for pair, more in zip(sets, wait(drawn), strict=True)]


def check(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    problem: Problem,
    steps: tuple[Step, ...],
    *,
    runs: int = RUNS,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[str, ...]:
    """Runs a kernel with an epilogue on JAX's default device and compares its outputs.

    Args:
      function: Takes A, B and the arguments of the steps.
      reference: The same in plain JAX.
      problem: The product.
      steps: The epilogue.
      runs: How often it must return the same bits.
      stage: Told what is done.

    Returns:
      What was proven, a line each.

    Raises:
      LevelError: the kernel is not right.
    """
    stage("compiling")
    kernel = repeats.Poisoned(function, all_structs(problem, steps))
    stage("small integers")
    operands, arguments = _draw(problem, steps, exact=True)
    outputs = kernel(*operands)
    exact = _check_rows(outputs, operands, arguments, problem, steps, exact=True)
    if exact:
        _check_all(outputs, reference, operands)
    stage("normal values")
    operands, arguments = _draw(problem, steps, exact=False)
    outputs, difference = repeats.repeat(kernel, operands, runs)
    _check_rows(outputs, operands, arguments, problem, steps, exact=False)
    if difference is not None:
        raise LevelError(f"on normal values: {difference}; {repeats.A_RACE}")
    rows = len(sampled_rows(problem.shape[0]))
    return (
        (
            "small integers as the reference in XLA, bit for bit"
            if exact
            else f"small integers within the tolerance of float64 in {rows} rows"
        ),
        f"normal values within the tolerance of float64 in {rows} rows",
        f"the same bits in {runs} runs, into memory that was NaN",
    )


def _draw(
    problem: Problem, steps: tuple[Step, ...], *, exact: bool
) -> tuple[list[Any], Mapping[str, Array]]:
    """Returns everything that the function takes, and the arguments in float64."""
    import jax

    m, n, k = problem.shape
    a, b = integers(problem) if exact else normal(problem)
    spread = INTEGERS_SPREAD if exact else 1.0
    if problem.operand_dtype not in FLOAT8:  # Whose smallest are not so small.
        a = a * np.float32(numerics.shrink(steps, spread * k**0.5)).astype(a.dtype)
    rng = np.random.default_rng([m, n, k, exact])
    arguments = numerics.draw(steps, m, n, rng, integers=exact)
    return [a, b, *map(jax.device_put, numerics.arrays(arguments, steps))], arguments


def _check_rows(
    outputs: Sequence[Any],
    operands: Sequence[Any],
    arguments: Mapping[str, Array],
    problem: Problem,
    steps: tuple[Step, ...],
    *,
    exact: bool,
) -> bool:
    """Compares some rows with float64; returns whether that was bit for bit."""
    rows = sampled_rows(problem.shape[0])
    a, b, *_ = operands
    a, b = logical(problem.layout, a, b)
    a64 = np.asarray(a[rows]).astype(np.float64)
    b64 = np.asarray(b).astype(np.float64)
    product, magnitude = a64 @ b64, np.abs(a64) @ np.abs(b64)
    accumulated = compare.tolerance(
        product,
        magnitude,
        reduction=problem.shape[2],
        operand_dtype=problem.operand_dtype,
        out_dtype=FLOAT32,
        on_gpu=True,
    )
    in_rows = {step.argument: "m" in step.axes for step in with_argument(steps)}
    epilogue = Epilogue(
        steps=steps,
        arguments={k: v[rows] if in_rows[k] else v for k, v in arguments.items()},
        approximates=problem.out_dtype != FLOAT32,
    )
    error = np.zeros_like(product) if exact else accumulated
    wanted = epilogue.outputs(product, error, exact=exact)
    wrong = check_outputs(
        [np.asarray(output[rows]).astype(np.float64) for output in outputs],
        wanted,
        magnitude=magnitude,
        out_dtype=problem.out_dtype,
        operand_dtype=problem.operand_dtype,
        suspects=lambda: epilogue.suspects(product),
    )
    if wrong is not None:
        kind = "small integers" if exact else "normal values"
        place = f"{len(rows)} rows, {rows[0]} to {rows[-1]}, counted from 0"
        raise LevelError(f"on {kind}: in {place}: {wrong}")
    return all(output.exact for output in wanted)


def _check_all(
    outputs: Sequence[Any], reference: Callable[..., Any], operands: Sequence[Any]
) -> None:
    """Compares every element with the reference in XLA."""
    import jax
    import jax.numpy as jnp

    def count(found: Any, wanted: Any) -> Any:
        return jnp.sum(found != wanted)

    wanted = jax.tree.leaves(jax.jit(reference)(*operands))
    for index, (found, expected) in enumerate(zip(outputs, wanted, strict=True)):
        if wrong := int(jax.jit(count)(found, expected)):
            raise LevelError(
                f"on small integers: {wrong} of {found.size} elements of output {index}"
                " differ from the module's reference"
            )
