"""Verifies a module: imports it, lowers it and simulates it, each in a worker process.

    verdict = verify(Request(name="fp16_128x128", source=text, ...))
    assert verdict.passed, verdict.failure

This package knows nothing of specs and plans, and this process never imports JAX.
"""

import dataclasses
from collections.abc import Sequence

from kgen.verify.request import (
    FAILED,
    GPU,
    LEVELS,
    LOWER,
    NOT_RUN,
    SIMULATE,
    STATIC,
    LevelResult,
    OperandCase,
    Request,
    RequestCase,
    Verdict,
)

__all__ = [
    "DEFAULT_LEVELS",
    "LEVELS",
    "LevelResult",
    "OperandCase",
    "Request",
    "RequestCase",
    "Verdict",
    "verify",
]

DEFAULT_LEVELS = (STATIC, LOWER, SIMULATE)
"""What a module must pass before it is written: all that needs no GPU."""


def verify(
    request: Request,
    *,
    levels: Sequence[str] = DEFAULT_LEVELS,
    timeout: float = 120.0,
    cache: bool = True,
) -> Verdict:
    """Verifies `request` level by level, up to the first level that fails.

    A bad module is a failed verdict and never an exception, whatever it does.

    Args:
      request: The module and what it is verified for.
      levels: Any of `LEVELS`; `import` always comes first.
      timeout: Seconds that each level may take.
      cache: Whether a passed verdict may come from the cache and is kept there. None
        is remembered of a file that is imported where it lies, since nobody knows what
        it imports, or of a GPU.

    Raises:
      ValueError: a level or `timeout` is not one of the above.
    """
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or len(set(levels)) != len(levels):
        raise ValueError(f"levels must be among {', '.join(LEVELS)}, got {levels!r}")
    if timeout <= 0:
        raise ValueError(f"timeout must be positive, got {timeout}")
    from kgen.verify import cache as verdicts

    ordered = [level for level in LEVELS if level in levels]
    cache = cache and not request.path and GPU not in ordered
    key = verdicts.key(request, ordered) if cache else ""
    if cache and (remembered := verdicts.load(key)) is not None:
        return remembered
    verdict = _run(request, ordered, timeout)
    if cache and verdict.jax_version == verdicts.installed("jax"):
        verdicts.store(key, verdict)
    return verdict


def _run(request: Request, levels: Sequence[str], timeout: float) -> Verdict:
    """Runs the levels; `gpu` has a process of its own, since JAX sees a GPU there."""
    from kgen.verify import process

    on_cpu = [level for level in levels if level != GPU]
    if len(on_cpu) == len(levels):
        return process.run(request, levels, timeout)
    if not on_cpu:
        return process.run(request, [GPU], timeout)
    verdict = process.run(request, on_cpu, timeout)
    failure = next((r for r in verdict.levels if r.status == FAILED), None)
    if failure is None:
        _, result = process.run(request, [GPU], timeout).levels
    else:
        detail = f"{failure.level} failed"
        result = LevelResult(level=GPU, status=NOT_RUN, detail=detail)
    return dataclasses.replace(verdict, levels=(*verdict.levels, result))
