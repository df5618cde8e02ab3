"""Callbacks of the interpreter without detours.

JAX puts every operand of a callback onto a device before Python sees it, which takes
longer than most callbacks of the interpreter. They work on numpy arrays as well.
"""

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from kgen.verify.simulate.patches import PATCHES, Patches

_MODULE = "jax._src.callback"
_MEMORY = "jax._src.pallas.mosaic_gpu.interpret.shared_memory"


def install(patches: Patches = PATCHES) -> None:
    """Hands callbacks numpy arrays, if this JAX calls them as those that kgen knows.

    Args:
      patches: Puts back what is replaced.
    """
    try:
        module: Any = importlib.import_module(_MODULE)
        memory: Any = importlib.import_module(_MEMORY)
        _, to_int = module.io_callback_impl, memory._to_int
    except (ImportError, AttributeError):
        return  # Slower, and just as right.
    patches.replace(module, "io_callback_impl", _call)
    patches.replace(memory, "_to_int", _of_numpy_too(to_int))


def _of_numpy_too(to_int: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Places of threads are numbers, given as arrays without dimensions."""

    @functools.wraps(to_int)
    def of_numpy_too(value: Any) -> Any:
        return to_int(value.item() if isinstance(value, np.ndarray) else value)

    return of_numpy_too


def _call(
    *operands: Any, callback: Callable[..., Any], **_described: Any
) -> tuple[Any, ...]:
    """Calls a callback on copies: XLA's own memory is gone when it returns."""
    try:
        results = callback(*(np.array(operand) for operand in operands))
        return tuple(np.asarray(result) for result in results)
    except BaseException:
        # Where whoever asks for the first failure listens.
        logging.getLogger(_MODULE).exception("a callback failed")
        raise
