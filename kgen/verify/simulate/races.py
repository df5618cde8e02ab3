"""Tells the races that JAX's interpreter reports."""

import re
from collections.abc import Sequence
from pathlib import Path

from kgen.verify import upstream
from kgen.verify.explain import describe_line

MOST_RACES = 3
# An access, as in "  read of HostAllocationKey(...)[...] from Warpgroup(...), <place>".
_ACCESS = re.compile(
    r"^\s*(read|write) of .* from ([A-Za-z]+)\(.*?\), (.*)$", re.MULTILINE
)


def describe_races(texts: Sequence[str], module: Path) -> str:
    """Returns the distinct races in terms of the module's lines."""
    found = list(dict.fromkeys(_describe(text, module) for text in texts))
    if not found:
        return "data race; the interpreter does not say where"
    more = len(found) - MOST_RACES
    if more > 0:
        found[MOST_RACES:] = [f"and {more} more"]
    return "data race: " + "; ".join(found)


def _describe(text: str, module: Path) -> str:
    accesses = []
    for kind, who, place in _ACCESS.findall(text):
        line = upstream.line_in(place, module)
        where = place if line is None else describe_line(module, line)
        accesses.append(f"{kind} by a {who.lower()} ({where})")
    if not accesses:
        return " ".join(text.split())[:400]
    return " against ".join(accesses)
