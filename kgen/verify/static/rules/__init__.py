"""The legality rules on a traced kernel, in groups."""

from collections.abc import Iterator

from kgen.verify.static.facts import Kernel
from kgen.verify.static.rules import (
    bodies,
    budgets,
    layouts,
    pipelines,
    tcgen05,
    tma,
    wgmma,
)
from kgen.verify.static.rules.base import TRACED, Finding

__all__ = [
    "TRACED",
    "Finding",
    "bodies",
    "budgets",
    "check",
    "layouts",
    "pipelines",
    "tcgen05",
    "tma",
    "wgmma",
]


def check(kernel: Kernel) -> Iterator[tuple[str, Finding]]:
    """Yields every broken rule of a kernel, without mere consequences."""
    found = [
        (code, finding)
        for code, find in sorted(TRACED.items())
        for finding in find(kernel)
    ]
    products_are_wrong = any(code.startswith(("KG1", "KG7")) for code, _ in found)
    for code, finding in found:
        # A tile that no product can have has no layout that fits it either.
        if code != "KG204" or not products_are_wrong:
            yield code, finding
