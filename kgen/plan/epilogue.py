"""What an epilogue's steps are once everything that a spec leaves out is filled in."""

from typing import Any

from kgen.epilogue.steps import FLOAT32, Step
from kgen.spec import epilogue as spec

DEFAULT_SCALAR = "alpha"
NAMES = {"beta": "value", "cap": "value", "min": "low", "max": "high"}
"""What a step calls a key of the spec, where that is another name."""


def resolve(steps: spec.Epilogue, out_dtype: str) -> tuple[Step, ...]:
    """Returns the steps of a spec.

    Args:
      steps: As the spec has them.
      out_dtype: Elements of the result.
    """
    return tuple(_resolve(step, out_dtype) for step in steps)


def _resolve(step: spec.Step, out_dtype: str) -> Step:
    said: dict[str, Any] = {
        NAMES.get(key, key): float(value) if isinstance(value, int) else value
        for key, value in step.model_dump().items()
        if value is not None
    }
    if isinstance(step, spec.Scale) and step.value is None:
        said.setdefault("argument", DEFAULT_SCALAR)
    elif isinstance(step, spec.Scale):
        said.pop("argument", None)  # A rule refuses both.
    if "argument" in said:
        narrow = isinstance(step, spec.Bias | spec.Residual)
        said.setdefault("dtype", out_dtype if narrow else FLOAT32)
    return Step(**said)
