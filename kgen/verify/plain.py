"""What of a module needs no kernel: its reference, and products of nothing.

Both run on the CPU as they are.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgen.verify import extremes, layout, numerics
from kgen.verify.explain import LevelError, explain
from kgen.verify.lower import called
from kgen.verify.reference import INTEGERS, KINDS
from kgen.verify.refusals import small_case
from kgen.verify.request import Case, Request, is_empty

REFERENCE = "reference"
"""The function of a module that says in plain JAX what its kernel computes."""


def check(
    function: Callable[..., Any],
    request: Request,
    module: Path,
    progress: Callable[[str], None],
) -> None:
    """Compares the module's reference, and products of nothing, with what is right.

    Args:
      function: The module's public function.
      request: Sizes and dtypes; only what it asks for is tried unless `units` is known.
      module: The module's file.
      progress: Told what is being tried.

    Raises:
      LevelError: a result is wrong.
    """
    reference = _reference(request)
    if reference is not None:
        small = small_case(request)
        for kind in KINDS:
            step = f"the module's own {REFERENCE} at {small} on {kind}"
            progress(step)
            _check(reference, request, small, kind, step=step, module=module)
    asked = [case for case in request.cases if is_empty(case)]
    for case in dict.fromkeys((*extremes.empty(request), *asked)):
        progress(str(case))
        check_empty(function, request, case, module)


def check_empty(
    function: Callable[..., Any], request: Request, case: Case, module: Path
) -> None:
    """Compares a product of nothing with what is right.

    Raises:
      LevelError: it is wrong.
    """
    of_case = called(function, case)
    _check(of_case, request, case, INTEGERS, step=f"at {case}", module=module)


def _reference(request: Request) -> Callable[..., Any] | None:
    """Returns the module's reference, if it is known to be that of its function."""
    imported = sys.modules.get(layout.full_name(request))
    return getattr(imported, REFERENCE, None) if request.units else None


def _check(
    function: Callable[..., Any],
    request: Request,
    case: Case,
    kind: str,
    *,
    step: str,
    module: Path,
) -> None:
    inputs, expected = numerics.draw(request, case, kind)
    try:
        result = function(*inputs)
    except Exception as error:
        raise LevelError(f"{step}: {explain(error, module)}") from error
    try:
        numerics.check(result, expected, request, kind, on_gpu=False)
    except LevelError as error:
        raise type(error)(f"{step}: {error}") from error
