"""Tells a wrong kernel from one that cannot be simulated."""

import re

from kgen.verify.explain import LevelError, NotModelledError
from kgen.verify.upstream import jax_version

_INTERPRETERS = ("/pallas/mosaic_gpu/interpret/", "/pallas/mosaic/interpret/")
# What JAX says of an operation that it knows for GPUs alone.
_GPU_ALONE = "not found for platform cpu"
# How its interpreter speaks of what it lacks, in exceptions of any type.
_LACKS = re.compile(r"interpret mode|\bunsupported\b|\bsupport", re.IGNORECASE)


def failure(error: BaseException, text: str) -> LevelError:
    """Returns what an exception of a simulated kernel means.

    Args:
      error: The exception.
      text: What it says, and where.
    """
    if isinstance(error, NotModelledError):
        return error
    if _is_lack(error):
        return NotModelledError(f"not simulated on jax {jax_version()}: {text}")
    return LevelError(text)


def _is_lack(error: BaseException) -> bool:
    if _GPU_ALONE in str(error):
        return True
    lacks = isinstance(error, NotImplementedError) or _LACKS.search(str(error))
    return bool(lacks) and _within_interpreter(error)


def _within_interpreter(error: BaseException) -> bool:
    """Whether JAX's interpreter was on the way to an exception.

    JAX removes its own frames from it; the cause still has them.
    """
    related: BaseException | None = error
    while related is not None:
        trace = related.__traceback__
        while trace is not None:
            path = trace.tb_frame.f_code.co_filename.replace("\\", "/")
            if any(part in path for part in _INTERPRETERS):
                return True
            trace = trace.tb_next
        related = related.__cause__ or related.__context__
    return False
