"""Legality: what the hardware, Mosaic GPU and JAX's pipelines can do.

One registry serves rendering, verification and tuning, so that nothing proposes what
something else refuses. Every rule is told for every candidate, not just the first.
"""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.errors import Problem
from kgen.plan import gradients as plans
from kgen.plan.legality import (
    batches,
    budgets,
    epilogue,
    glu,
    gradients,
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
from kgen.plan.legality.base import CHECKS, Finding

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

__all__ = [
    "batches",
    "budgets",
    "check",
    "epilogue",
    "glu",
    "gradients",
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


WARPGROUPS = "schedule.num_compute_wgs"
REGISTERS = ("KG402", "KG404", "KG405")
"""What must fit beside so many warpgroups. Of a wrong number it says nothing."""
GRADIENTS = "KG66"
"""Begins the codes of what has no gradients, whatever its tiles."""


def check(candidate: "Candidate") -> tuple[Problem, ...]:
    """Returns every broken rule in the order of the lines, without consequences.

    Rules that the spec allows to be broken are left out.
    """
    found = [*_found(candidate)]
    refused = any(code.startswith(GRADIENTS) for code, _ in found)
    if candidate.autodiff and not refused:
        found += _of_gradients(candidate, found)
    illegal = {finding.key for code, finding in found if code.startswith("KG1")}
    specialized = candidate.spec.schedule.warp_specialized
    if specialized and any(finding.key == WARPGROUPS for _, finding in found):
        found = [each for each in found if each[0] not in REGISTERS]
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


def _found(candidate: "Candidate") -> Iterator[tuple[str, Finding]]:
    for code, find in sorted(CHECKS.items()):
        if code not in candidate.spec.verify.allow:
            yield from ((code, finding) for finding in find(candidate))


def _of_gradients(
    candidate: "Candidate", of_product: list[tuple[str, Finding]]
) -> Iterator[tuple[str, Finding]]:
    """Yields what the kernel breaks only as it computes a gradient."""
    for gradient, product in plans.candidates(candidate):
        for code, finding in _found(product):
            if (code, finding) not in of_product:
                what = f"the gradient of {gradient.of.upper()}"
                yield (
                    code,
                    dataclasses.replace(
                        finding,
                        message=f"{finding.message}, in {what}",
                        hint=f'{what} is a product in layout "{gradient.layout}" by the '
                        f"same tiles; see `kgen rule {code}`",
                    ),
                )
