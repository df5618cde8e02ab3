"""The page of mutations, from outcomes."""

from collections.abc import Iterable, Iterator
from typing import Any

from .model import Kind, Mutant
from .outcomes import NOT_CAUGHT, RELATIVE, SIZE

NOT_MEASURED = "not measured"
COLUMNS = ("kgen", "jax", "gpu")
INTRODUCTION = """\
# What finds which fault

<!-- Written by `python -m tests.mutants.table`. -->

Right kernels, of which every one passes, and mutants of them: each has one planted
fault, a small edit of its text. The kernels are rendered ones of every schedule
(`pipelined`, `warp_specialized`, `pallas_call`) and a few written by hand (`ring`: a ring
of SMEM slots with explicit barriers; `persistent` and `persistent_ws`; `cluster`;
`two_halves`: K in two parts). They and the edits are in
[tests/mutants/](../tests/mutants).

- **kgen**: the level of `kgen verify` that finds it (static, lower, simulate), and by
  what: a race, a deadlock, wrong numbers, a rule, or the error that Mosaic GPU raises.
- **JAX**: what JAX's own interpreter with `detect_races=True` and
  `numpy.testing.assert_allclose(result, a @ b, rtol={relative:g})` find on normal values at
  {size}, which is how kernels are mostly tested (where the fault is in
  the tile's size, at a size that it divides).
- **GPU**: what happens on {gpu}, where the kernel is launched and its result compared.

Several answers in one cell are those of several mutants.
"""


def page(mutants: list[Mutant], outcomes: dict[str, Any]) -> str:
    """Returns the text of the page.

    Args:
      mutants: The catalogue.
      outcomes: What was measured, as in results.json.
    """
    found = outcomes["mutants"]
    parts = [_introduction(outcomes["gpu"]), _totals(mutants, outcomes)]
    for group in dict.fromkeys(mutant.kind.group for mutant in mutants):
        of_group = [mutant for mutant in mutants if mutant.kind.group == group]
        parts.append(f"## {group.capitalize()}\n\n" + _table(of_group, found))
        parts.append(_meanings(of_group))
    return "\n".join(parts)


def _introduction(gpu: str) -> str:
    size = " x ".join(map(str, SIZE))
    return INTRODUCTION.format(relative=RELATIVE, size=size, gpu=gpu or "a GPU")


def _totals(mutants: list[Mutant], outcomes: dict[str, Any]) -> str:
    found = outcomes["mutants"]
    kinds = len({mutant.kind for mutant in mutants})
    rows = [
        f"On JAX {outcomes['jax']}:\n",
        "| | |\n| --- | --- |",
        f"| kinds of fault | {kinds} |",
        f"| mutants | {len(mutants)} |",
        f"| caught by kgen | {_caught(found, 'kgen')} |",
        "| caught by JAX's interpreter and `assert_allclose` |"
        f" {_caught(found, 'jax')} |",
    ]
    measured = [of["gpu"] for of in found.values() if "gpu" in of]
    rows.append(f"| run on a GPU | {len(measured) or NOT_MEASURED} |")
    for outcome in dict.fromkeys(sorted(measured)):
        rows.append(f"| there: {outcome} | {measured.count(outcome)} |")
    return "\n".join(rows) + "\n"


def _caught(found: dict[str, Any], by: str) -> int:
    return sum(of.get(by, NOT_CAUGHT) != NOT_CAUGHT for of in found.values())


def _table(mutants: list[Mutant], found: dict[str, Any]) -> str:
    lines = [
        "| fault | schedule | kgen | JAX | GPU |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += _rows(mutants, found)
    return "\n".join(lines) + "\n"


def _rows(mutants: list[Mutant], found: dict[str, Any]) -> Iterator[str]:
    told: Kind | None = None
    for kind, schedule in dict.fromkeys(
        (m.kind, m.schedule) for m in _by_kind(mutants)
    ):
        of = [m.name for m in mutants if (m.kind, m.schedule) == (kind, schedule)]
        cells = (
            "" if kind == told else kind.name,
            f"`{schedule}`",
            *(
                _cell(found[name].get(by, NOT_MEASURED) for name in of)
                for by in COLUMNS
            ),
        )
        told = kind
        yield f"| {' | '.join(cells)} |"


def _by_kind(mutants: list[Mutant]) -> list[Mutant]:
    """Returns the mutants with those of a kind side by side."""
    kinds = list(dict.fromkeys(mutant.kind for mutant in mutants))
    return sorted(mutants, key=lambda mutant: kinds.index(mutant.kind))


def _cell(outcomes: Iterable[str]) -> str:
    return ", ".join(
        f"**{outcome}**" if outcome == NOT_CAUGHT else outcome
        for outcome in dict.fromkeys(outcomes)
    )


def _meanings(mutants: list[Mutant]) -> str:
    kinds = dict.fromkeys(mutant.kind for mutant in mutants)
    return "\n".join(f"- *{kind.name}*: {kind.what}." for kind in kinds) + "\n"
