"""What a search is told as: tables of the space, the predictions and the results."""

import statistics

from kgen.tables import Table
from kgen.tune import choose
from kgen.tune.prune import SAME, SHALLOW, SHAPE
from kgen.tune.records import MEASURED, Record
from kgen.tune.search import Found
from kgen.tune.session import Subject

SHOWN = 10
REASONS = {
    SHAPE: "the kernel does not take the shape",
    SHALLOW: "rings of more slots fit",
    SAME: "it says what another one says",
}


def reason(rule: str) -> str:
    """Returns what a rule of pruning means."""
    from kgen.rules import all_rules

    if rule in REASONS:
        return REASONS[rule]
    rules = all_rules()
    return rules[rule].title if rule in rules else rule


def pruned(subject: Subject) -> Table:
    """Returns the table of what was left out, and why."""
    space = subject.pruned
    rows = [("", "candidates", str(space.total))]
    rows += [(rule, reason(rule), str(count)) for rule, count in space.by_rule.items()]
    rows.append(("", "legal", str(len(space.legal))))
    return Table(
        title=f"{subject.source.name} at {subject.problem}",
        columns=("rule", "what", "candidates"),
        rows=tuple(rows),
        right=frozenset({2}),
    )


def predicted(subject: Subject, count: int) -> Table:
    """Returns the table of the candidates that should be fastest, and why."""
    rows = []
    for each in subject.candidates[:count]:
        cost = subject.costs[each.digest]
        largest = sorted(cost.terms, key=lambda term: -term.us)[:2]
        why = ", ".join(f"{term.name} {term.us:.1f}" for term in largest)
        rows.append((f"{cost.us:.1f}", why, each.candidate.label))
    return Table(
        title="Predicted, the fastest first",
        columns=("us", "largest terms, us", "candidate"),
        rows=tuple(rows),
        right=frozenset({0}),
        note="Loads and products overlap: a prediction is less than the sum of its terms.",
    )


def results(subject: Subject, found: Found) -> tuple[Table, ...]:
    """Returns the tables of what was measured and chosen."""
    ranked = found.final if found.final.records else found.ranked
    rows = tuple(_row(subject, record, found) for record in ranked.records[:SHOWN])
    stage = "measured again" if found.final.records else "measured"
    table = Table(
        title=f"The fastest, {stage}",
        columns=("", "us", "+-%", "TFLOP/s", "of XLA's speed", "candidate"),
        rows=rows,
        right=frozenset({1, 2, 3, 4}),
        note=f"=: within {100 * ranked.band:.1f} % of the fastest, which noise explains."
        " *: the winner, the simplest of these.",
    )
    return (pruned(subject), counts(found), *((table,) if rows else ()))


def counts(found: Found) -> Table:
    """Returns the table of how many candidates had which outcome."""
    outcomes: dict[str, int] = {}
    for record in found.records.values():
        outcomes[record.outcome] = outcomes.get(record.outcome, 0) + 1
    rows = [(outcome, str(count)) for outcome, count in sorted(outcomes.items())]
    if found.left:
        rows.append(("not tried", str(found.left)))
    return Table(
        title="Results",
        columns=("outcome", "candidates"),
        rows=tuple(rows),
        right=frozenset({1}),
    )


def _row(subject: Subject, record: Record, found: Found) -> tuple[str, ...]:
    ranked = found.final if found.final.records else found.ranked
    mark = "=" if record in ranked.tied else ""
    if found.winner is not None and record.digest == found.winner.digest:
        mark = "*"
    us = statistics.median(record.us)
    label = " ".join(
        f"{key}={value}" for key, value in record.values if value is not None
    )
    return (
        mark,
        f"{us:.1f}",
        f"{100 * choose.noise(record):.1f}",
        f"{tflops(subject, us):.0f}",
        f"{1 / choose.score(record):.3f}" if record.peer_us else "",
        label,
    )


def tflops(subject: Subject, us: float) -> float:
    """Returns TFLOP/s of a call that takes so long."""
    return subject.problem.work.flops / us / 1e6


def is_measured(record: Record) -> bool:
    """Whether a candidate has times."""
    return record.outcome == MEASURED
