"""Tells the races that JAX's interpreter reports, and what to do about them."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from kgen.verify import upstream
from kgen.verify.explain import describe_line

MOST_RACES = 3
# An access, as in "  read of HostAllocationKey(...)[(0, slice(...))] from Warpgroup(...),
# <place>"; the place is empty for what JAX's own pipelines do.
_ACCESS = re.compile(
    r"^ *(?P<kind>read|write) of .*?\)(?:\[(?P<range>.*)\])? from (?P<who>[A-Za-z]+)"
    r"\(.*?\), ?(?P<place>.*)$",
    re.MULTILINE,
)
_SLOT = re.compile(r"\(\(?(\d+), slice")
PIPELINE, WGMMA = "emit_pipeline", "plgpu.wgmma("
STILL_READ = (
    "the slot is loaded anew while a wgmma may still read it: raise delay_release, or"
    " wait for the wgmma before the step ends (wgmma_wait)"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Access:
    """One of the two accesses of a race.

    Attributes:
      text: What it is and where, for people.
      kind: `read` or `write`.
      slot: Slot of the ring that it touches, if it can be told.
      by_wgmma: Whether a wgmma makes it.
      by_pipeline: Whether JAX's pipeline makes it.
    """

    text: str
    kind: str
    slot: int | None
    by_wgmma: bool
    by_pipeline: bool


def describe_races(texts: Sequence[str], module: Path) -> str:
    """Returns the distinct races in terms of the module's lines."""
    slots: dict[str, set[int]] = {}
    for text in texts:
        told, slot = _describe(text, module)
        slots.setdefault(told, set()).update([] if slot is None else [slot])
    if not slots:
        return "data race; the interpreter does not say where"
    found = [_on_slots(numbers) + told for told, numbers in slots.items()]
    more = len(found) - MOST_RACES
    if more > 0:
        found[MOST_RACES:] = [f"and {more} more"]
    return "data race: " + "; ".join(found)


def _on_slots(numbers: set[int]) -> str:
    if not numbers:
        return ""
    word = "slot" if len(numbers) == 1 else "slots"
    return f"on {word} {', '.join(map(str, sorted(numbers)))}, "


def _describe(text: str, module: Path) -> tuple[str, int | None]:
    """Returns what one race is, and the slot it is on if that can be told."""
    accesses = [_access(match, module) for match in _ACCESS.finditer(text)]
    if not accesses:
        return " ".join(text.split())[:400], None
    told = " against ".join(access.text for access in accesses)
    slots = {access.slot for access in accesses} - {None}
    slot = slots.pop() if len(slots) == 1 else None
    reads = [access for access in accesses if access.by_wgmma]
    loads = [a for a in accesses if a.by_pipeline and a.kind == "write"]
    return f"{told}; {STILL_READ}" if reads and loads else told, slot


def _access(match: re.Match[str], module: Path) -> _Access:
    place = match["place"].strip()
    line = upstream.line_in(place, module)
    by_pipeline = not place
    if by_pipeline:
        line = _line_with(PIPELINE, module)
        who = "the pipeline"
    else:
        who = f"a {match['who'].lower()}"
    where = describe_line(module, line) if line else place or "within JAX"
    slot = _SLOT.match(match["range"] or "")
    return _Access(
        text=f"{match['kind']} by {who} ({where})",
        kind=match["kind"],
        slot=int(slot[1]) if slot else None,
        by_wgmma=WGMMA in where,
        by_pipeline=by_pipeline,
    )


def _line_with(text: str, module: Path) -> int | None:
    """Returns the first line of the module's code that contains `text`."""
    lines = module.read_text(encoding="utf-8").splitlines()
    code = (n for n, line in enumerate(lines, 1) if text in line and "(" in line)
    return next(code, None)
