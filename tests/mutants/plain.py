"""Runs one kernel as most people test: JAX's own interpreter, one size, allclose.

    python plain.py MODULE LAYOUT ORDER DTYPE TOLERANCE SMS M N K

This is a program of its own, so that nothing of kgen is imported. It prints a line:
what it found, or `passed`. SMS is what a persistent kernel is told, 0 for any other.
"""

import contextlib
import functools
import importlib.util
import io
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import mosaic_gpu as plgpu

RACE = "RACE DETECTED"


def main() -> None:
    """Prints the outcome."""
    path, layout, order, dtype, tolerance, *sizes = sys.argv[1:]
    num_sms, m, n, k = map(int, sizes)
    matmul = _load(Path(path)).matmul
    if num_sms:
        matmul = functools.partial(matmul, num_sms=num_sms)
    rng = np.random.default_rng(0)
    of_a, of_b = layout
    shapes = ((k, m) if of_a == "t" else (m, k), (n, k) if of_b == "t" else (k, n))
    a, b = (jnp.asarray(rng.standard_normal(shape), dtype) for shape in shapes)
    heard = io.StringIO()
    logging.getLogger().addHandler(logging.StreamHandler(heard))
    with contextlib.redirect_stdout(heard):  # JAX before 0.12 prints its races.
        outcome = _outcome(matmul, (a, b), layout, order, float(tolerance))
    print("race" if RACE in heard.getvalue() else outcome)


def _outcome(
    matmul: Callable[..., jax.Array],
    operands: tuple[jax.Array, jax.Array],
    layout: str,
    order: str,
    tolerance: float,
) -> str:
    params = plgpu.InterpretGPUParams(detect_races=True)
    try:
        result = np.asarray(matmul(*operands, interpret=params), np.float32)
    except Exception as error:
        return "race" if RACE in str(error) else f"error: {type(error).__name__}"
    wide = (np.asarray(each, np.float32) for each in operands)
    a, b = (x.T if t == "t" else x for x, t in zip(wide, layout, strict=True))
    expected = (a @ b).T if order == "column" else a @ b
    try:
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    except AssertionError:
        return "numbers"
    return "passed"


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
