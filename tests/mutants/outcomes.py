"""What finds a mutant: kgen, level by level, and JAX's own interpreter beside it."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from kgen.epilogue.steps import with_argument
from kgen.verify import scales
from kgen.verify.request import (
    FAILED,
    LOWER,
    SIMULATE,
    STATIC,
    LevelResult,
    RequestCase,
    Verdict,
)

from .model import Base, Mutant

LEVELS = (STATIC, LOWER, SIMULATE)
TIMEOUT = 15.0
"""Seconds per level: what hangs is found well before, and a right kernel needs four."""

PLAIN = Path(__file__).with_name("plain.py")
PLAIN_TIMEOUT = 45.0
TOLERANCE = 1e-2
"""Relative and absolute error that the usual test allows."""
SIZE = (256, 256, 256)
"""The usual size: m, n and k alike."""

HANG = "hang"
NOT_CAUGHT = "not caught"
# By what a level finds a fault, as its detail tells it.
_SIGNS = (
    ("data race", "race"),
    ("deadlock", "deadlock"),
    ("no result within", HANG),
    ("elements are wrong", "numbers"),
    ("completes a second time", "barrier overrun"),
    ("completed once more than", "barrier left over"),
    ("ends while a store is in flight", "store in flight at the end"),
    ("in flight when the kernel ends", "load in flight at the end"),
)
_RULE = re.compile(r"\bKG\d{3}\b")
_ERROR = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Interrupt))\b")


def failed_level(verdict: Verdict) -> LevelResult | None:
    """Returns the level that found something wrong: one that was not run did not."""
    return next((r for r in verdict.levels if r.status == FAILED), None)


def found_by(result: LevelResult | None) -> str:
    """Returns the level and what it found, such as `simulate: race`."""
    if result is None:
        return NOT_CAUGHT
    return f"{result.level}: {_reason(result.detail)}"


def _reason(detail: str) -> str:
    if rules := _RULE.findall(detail):
        return " ".join(dict.fromkeys(rules))
    for sign, reason in _SIGNS:
        if sign in detail:
            return reason
    error = _ERROR.search(detail)
    return error[1] if error else "refused"


def plain(kernel: Mutant | Base, sizes: tuple[int, int, int]) -> str:
    """Returns what JAX's interpreter and `assert_allclose` find, or `not caught`.

    The process knows nothing of kgen.
    """
    request = kernel.request
    num_sms = request.cases[0].num_sms or 0
    orders = (request.layout, request.out_order)
    options = (*orders, request.operand_dtype, TOLERANCE, num_sms, *sizes)
    m, n, k = sizes
    case = RequestCase(m=m, n=n, k=k)
    of_request = request.cases[0]
    arguments = [
        "x".join(map(str, batch)) for batch in (of_request.a_batch, of_request.b_batch)
    ]
    arguments += [
        ",".join(["float32", *map(str, shape)])
        for shape in scales.shapes(request, case)
    ]
    arguments += [
        ",".join([step.dtype, *map(str, step.shape(m, n))])
        for step in with_argument(request.steps)
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, f"{kernel.name}.py")
        path.write_text(kernel.source, encoding="utf-8")
        try:
            done = subprocess.run(
                [
                    sys.executable,
                    "-P",
                    str(PLAIN),
                    str(path),
                    *map(str, options),
                    *arguments,
                ],
                capture_output=True,
                text=True,
                check=False,
                timeout=PLAIN_TIMEOUT,
                env=os.environ | {"JAX_PLATFORMS": "cpu"},
            )
        except subprocess.TimeoutExpired:
            return HANG
    outcome = (done.stdout.splitlines() or [""])[-1]
    if done.returncode or not outcome:
        return f"error: exit status {done.returncode}"
    return NOT_CAUGHT if outcome == "passed" else outcome


def usual_sizes(mutant: Mutant, base: Base) -> tuple[int, int, int]:
    """Returns the usual size, or the request's if the fault changed the tile."""
    if mutant.request.cases == base.request.cases:
        return SIZE
    (case,) = mutant.request.cases
    return case.m, case.n, case.k
