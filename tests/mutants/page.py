"""The page of mutations, from outcomes."""

from collections.abc import Iterable, Iterator
from typing import Any

from .model import Kind, Mutant
from .outcomes import NOT_CAUGHT, SIZE, TOLERANCE

NOT_MEASURED = "not measured"
COLUMNS = ("kgen", "jax", "gpu")
INTRODUCTION = """\
# What finds which fault

<!-- Written by `python -m tests.mutants.table`. -->

Right kernels, every one of which passes both tests below, and mutants of them: each has
one planted fault, a small edit of its text. The kernels are rendered ones of every
schedule (`pipelined`, `warp_specialized`, `pallas_call`; and, warp-specialised, too:
`persistent_ws`, `cluster`, `persistent_cluster`, `split_k`, `swapped`; `epilogue`: with
steps between accumulator and output; `batched`: of several matrices) and a few written
by hand (`ring`: a ring of SMEM slots with explicit barriers; `persistent`, in one
warpgroup; `two_halves`: K in two parts). They and the edits are in
[tests/mutants/](../tests/mutants).

- **kgen**: the level of `kgen verify` that finds it (static, lower, simulate), and by
  what: a race, a deadlock, wrong numbers, a rule, or the error that is raised.
- **JAX**: what JAX's own interpreter with `detect_races=True` and
  `assert_allclose(result, a @ b, rtol={tolerance:g}, atol={tolerance:g})` find on normal
  values at {size}, which is how kernels are mostly tested (where the fault
  is in the tile's size, at a size that it divides); a persistent kernel is told of as
  few SMs as for kgen. It is not meant to find what is
  illegal: Mosaic GPU refuses some of that when it lowers the kernel for a GPU.
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
    return INTRODUCTION.format(
        tolerance=TOLERANCE, size=size, gpu=f"one {gpu}" if gpu else "a GPU"
    )


def _totals(mutants: list[Mutant], outcomes: dict[str, Any]) -> str:
    found = outcomes["mutants"]
    lines = [
        f"On JAX {outcomes['jax']}:\n",
        "| group | kinds | mutants | caught by kgen | by JAX's interpreter and allclose |",
        "| --- | --- | --- | --- | --- |",
    ]
    for group in dict.fromkeys(mutant.kind.group for mutant in mutants):
        of_group = [mutant for mutant in mutants if mutant.kind.group == group]
        lines.append(_total(group, of_group, found))
    lines.append(_total("all", mutants, found))
    measured = sorted(of["gpu"] for of in found.values() if "gpu" in of)
    lines.append(f"\nOn a GPU: {len(measured) or NOT_MEASURED}")
    lines[-1] += "".join(
        f"; {measured.count(outcome)} {outcome}" for outcome in dict.fromkeys(measured)
    )
    return "\n".join(lines) + ".\n"


def _total(name: str, mutants: list[Mutant], found: dict[str, Any]) -> str:
    kinds = len({mutant.kind for mutant in mutants})
    of = {mutant.name: found[mutant.name] for mutant in mutants}
    caught = f"{_caught(of, 'kgen')} | {_caught(of, 'jax')}"
    return f"| {name} | {kinds} | {len(mutants)} | {caught} |"


def _caught(found: dict[str, Any], by: str) -> int:
    """Returns how many mutants are caught; one that was not measured is not."""
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
