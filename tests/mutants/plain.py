"""Runs one kernel as most people test: JAX's own interpreter, one size, allclose.

    python plain.py MODULE LAYOUT ORDER DTYPE TOLERANCE SMS M N K A B [ARGUMENT ...]

This is a program of its own, so that nothing of kgen is imported. It prints a line:
what it found, or `passed`. SMS is what a persistent kernel is told, 0 for any other. A and
B are their leading dimensions, such as `3x2`, or empty.
An ARGUMENT is what an epilogue takes, a dtype and sizes such as `float32,256`; what is
right is then the module's own reference, as it is for a gated unit, whose two weights are
both like B. Where a module has gradients, they are compared, too.
"""

import contextlib
import functools
import importlib.util
import io
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import mosaic_gpu as plgpu

RACE = "RACE DETECTED"


def main() -> None:
    """Prints the outcome."""
    path, layout, order, dtype, tolerance, *sizes = sys.argv[1:10]
    num_sms, m, n, k = map(int, sizes)
    a_batch, b_batch = (map(int, filter(None, x.split("x"))) for x in sys.argv[10:12])
    module = _load(Path(path))
    is_gated = hasattr(module, "glu")
    kernel = module.glu if is_gated else module.matmul
    if num_sms:
        kernel = functools.partial(kernel, num_sms=num_sms)
    rng = np.random.default_rng(0)
    of_a, of_b = layout
    shapes = (
        (*a_batch, *((k, m) if of_a == "t" else (m, k))),
        (*b_batch, *((n, k) if of_b == "t" else (k, n))),
    )
    if is_gated:
        shapes = (*shapes, shapes[1])
    operands = [jnp.asarray(rng.standard_normal(shape), dtype) for shape in shapes]
    operands += [_draw(rng, *argument.split(",")) for argument in sys.argv[12:]]
    if len(operands) > 2 or hasattr(module, "_epilogue"):
        expected = module.reference(*operands)
    else:
        expected = _product(*operands, layout, order)
    if hasattr(module, "_backward"):
        cotangent = _draw(rng, dtype, *map(str, expected.shape))
        cotangent = cotangent.astype(module.reference(*operands).dtype)
        kernel = _with_gradients(kernel, cotangent)
        expected = _with_gradients(module.reference, cotangent)(*operands)
    heard = io.StringIO()
    logging.getLogger().addHandler(logging.StreamHandler(heard))
    with contextlib.redirect_stdout(heard):  # JAX before 0.12 prints its races.
        outcome = _outcome(kernel, operands, expected, float(tolerance))
    print("race" if RACE in heard.getvalue() else outcome)


def _with_gradients(
    function: Callable[..., Any], cotangent: jax.Array
) -> Callable[..., Any]:
    def differentiated(*operands: jax.Array, **options: Any) -> Any:
        result, back = jax.vjp(functools.partial(function, **options), *operands)
        return result, *back(cotangent)

    return differentiated


def _outcome(
    kernel: Callable[..., Any],
    operands: Sequence[Any],
    expected: Any,
    tolerance: float,
) -> str:
    params = plgpu.InterpretGPUParams(detect_races=True)
    try:
        result = jax.tree.map(_wide, kernel(*operands, interpret=params))
    except Exception as error:
        return "race" if RACE in str(error) else f"error: {type(error).__name__}"
    close = functools.partial(
        np.testing.assert_allclose, rtol=tolerance, atol=tolerance
    )
    try:
        jax.tree.map(close, result, jax.tree.map(_wide, expected))
    except AssertionError:
        return "numbers"
    return "passed"


def _draw(rng: np.random.Generator, dtype: str, *sizes: str) -> jax.Array:
    return jnp.asarray(rng.standard_normal([int(size) for size in sizes]), dtype)


def _product(a: jax.Array, b: jax.Array, layout: str, order: str) -> Any:
    wide = map(_wide, (a, b))
    left, right = (x.mT if t == "t" else x for x, t in zip(wide, layout, strict=True))
    return (left @ right).mT if order == "column" else left @ right


def _wide(array: Any) -> Any:
    return np.asarray(array, np.float32)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
