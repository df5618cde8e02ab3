"""Verifies a module: imports it, lowers it and simulates it, each in a worker process.

    verdict = verify(Request(name="fp16_128x128", source=text, ...))
    assert verdict.passed, verdict.failure

This package knows nothing of specs and plans, and this process never imports JAX.
"""

from collections.abc import Sequence

from kgen.verify.request import (
    LEVELS,
    LevelResult,
    Request,
    RequestCase,
    Verdict,
)

__all__ = ["LEVELS", "LevelResult", "Request", "RequestCase", "Verdict", "verify"]


def verify(
    request: Request,
    *,
    levels: Sequence[str] = LEVELS,
    timeout: float = 120.0,
    cache: bool = True,
) -> Verdict:
    """Verifies `request` level by level, up to the first level that fails.

    A bad module is a failed verdict and never an exception, whatever it does.

    Args:
      request: The module and what it is verified for.
      levels: Any of `lower` and `simulate`; `import` always comes first.
      timeout: Seconds that each level may take.
      cache: Whether a passed verdict may come from the cache and is kept there.

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
    key = verdicts.key(request, ordered) if cache else ""
    if cache and (remembered := verdicts.load(key)) is not None:
        return remembered
    from kgen.verify import process

    verdict = process.run(request, ordered, timeout)
    if cache and verdict.jax_version == verdicts.installed("jax"):
        verdicts.store(key, verdict)
    return verdict
