"""Legality: what the hardware, Mosaic GPU and JAX's pipelines can do.

One registry serves rendering, verification and tuning, so that nothing proposes what
something else refuses. Every rule is told for every candidate, not just the first.
"""

from typing import TYPE_CHECKING

from kgen.errors import Problem
from kgen.plan.legality import (
    batches,
    budgets,
    epilogue,
    glu,
    layouts,
    persistent,
    pipelines,
    promotion,
    schedules,
    tensors,
    tests,
    tma,
    wgmma,
)
from kgen.plan.legality.base import CHECKS

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

__all__ = [
    "batches",
    "budgets",
    "check",
    "epilogue",
    "glu",
    "layouts",
    "persistent",
    "pipelines",
    "promotion",
    "schedules",
    "tensors",
    "tests",
    "tma",
    "wgmma",
]


def check(candidate: "Candidate") -> tuple[Problem, ...]:
    """Returns every broken rule in the order of the lines, without consequences.

    Rules that the spec allows to be broken are left out.
    """
    found = [
        (code, finding)
        for code, find in sorted(CHECKS.items())
        if code not in candidate.spec.verify.allow
        for finding in find(candidate)
    ]
    illegal = {finding.key for code, finding in found if code.startswith("KG1")}
    problems = [
        candidate.source.problem(
            finding.key,
            code,
            finding.message,
            allowed=finding.allowed,
            hint=finding.hint or f"see `kgen rule {code}`",
        )
        for code, finding in found
        if illegal.isdisjoint(finding.follows)
    ]
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))
