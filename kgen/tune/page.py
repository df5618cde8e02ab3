"""The report: one HTML page that needs nothing else."""

import html
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from kgen.emit.replace import check_own, replace
from kgen.emit.write import Output
from kgen.tune import choose, told
from kgen.tune.records import Key, Record
from kgen.tune.search import Found
from kgen.tune.session import Subject

COMMAND = "kgen tune --report"
WIDTH, HEIGHT, MARGIN = 720, 420, 56
MARK = '<meta name="generator" content="kgen tune">'
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; color: #1b1b1b; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top;
  border-bottom: 1px solid #ddd; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.tied { background: #eef6ee; } tr.winner { background: #cfe8cf; font-weight: 600; }
svg text { font: 12px system-ui, sans-serif; fill: #444; }
.wide { overflow-x: auto; }
"""


def check_place(path: Path) -> None:
    """Refuses a place for a page where a file lies that is none.

    Raises:
      FileError: there is such a file, or it cannot be read.
    """
    check_own(path, _is_own, COMMAND)


def write_page(path: Path, text: str) -> None:
    """Writes a page over an older one alone.

    Raises:
      FileError: another file is in the way, or it cannot be written.
    """
    replace([Output(path=path, text=text)], _is_own, COMMAND)


def _is_own(text: str) -> bool:
    return MARK in text


def page_text(subject: Subject, key: Key, found: Found) -> str:
    """Returns the page of a search."""
    name = html.escape(subject.source.name)
    title = f"{name} at {subject.problem}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8">{MARK}',
        f"<title>{title}</title><style>{STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        f"<p>{html.escape(key.device)}, {html.escape(key.arch)}, JAX"
        f" {html.escape(key.jax)}, templates {html.escape(key.template)}</p>",
        "<h2>Winner</h2>",
        _winner(subject, found),
        "<h2>Space</h2>",
        _space(subject, found),
        "<h2>Predicted and measured</h2>",
        scatter(subject, found),
        "<h2>Results</h2>",
        _results(subject, found),
        "<h2>Not measured</h2>",
        _failures(found),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _winner(subject: Subject, found: Found) -> str:
    if found.winner is None:
        return "<p>No candidate could be measured.</p>"
    ranked = found.final if found.final.records else found.ranked
    us = statistics.median(found.winner.us)
    rows = [[key, str(v)] for key, v in found.winner.values if v is not None]
    faster = ""
    if found.winner.peer_us:
        faster = f", {1 / choose.score(found.winner):.3f} of XLA's speed"
    return (
        f"<p>{us:.1f} us, {told.tflops(subject, us):.0f} TFLOP/s{faster}. It is the"
        f" simplest of {len(ranked.tied)} that are within {100 * ranked.band:.2f} % of"
        " the fastest: the tie band, twice the noise of the measurements, at least"
        f" {100 * choose.LEAST_BAND:.1f} %.</p>{_table(('key', 'value'), rows)}"
    )


def _space(subject: Subject, found: Found) -> str:
    space = subject.pruned
    rows = [
        [rule, told.reason(rule), str(count), space.examples.get(rule, "")]
        for rule, count in space.by_rule.items()
    ]
    text = (
        f"<p>{space.total} candidates, {len(space.legal)} of them legal;"
        f" {len(found.records)} tried, {found.left} left.</p>"
    )
    if rows:
        heads = ("rule", "pruned since", "candidates", "for example")
        text += _table(heads, rows, numbers={2})
    return text + _axes(subject)


def _axes(subject: Subject) -> str:
    """Returns the values of every key in the legal candidates."""
    values: dict[str, list[str]] = {}
    for each in subject.pruned.legal:
        for key, value in each.candidate.values:
            shown = "left out" if value is None else str(value)
            if shown not in values.setdefault(key, []):
                values[key].append(shown)
    rows = [[key, ", ".join(each)] for key, each in values.items()]
    return _table(("key", "values of the legal candidates"), rows)


def _results(subject: Subject, found: Found) -> str:
    """Returns the table of everything that was measured, the fastest first."""
    again = {record.digest: record for record in found.final.records}
    tied = {record.digest for record in (found.final if again else found.ranked).tied}
    winner = found.winner.digest if found.winner else ""
    rows, classes = [], []
    for record in found.ranked.records:
        us = statistics.median(record.us)
        final = again.get(record.digest)
        rows.append(
            [
                f"{us:.2f}",
                f"{100 * choose.noise(record):.2f}",
                f"{told.tflops(subject, us):.0f}",
                f"{1 / choose.score(record):.3f}" if record.peer_us else "",
                "" if final is None else f"{statistics.median(final.us):.2f}",
                f"{subject.costs[record.digest].us:.2f}",
                _label(record),
            ]
        )
        tie = "tied" if record.digest in tied else ""
        classes.append("winner" if record.digest == winner else tie)
    heads = (
        "us",
        "&plusmn; %",
        "TFLOP/s",
        "of XLA's speed",
        "us, measured again",
        "us, predicted",
        "candidate",
    )
    return _table(heads, rows, numbers={0, 1, 2, 3, 4, 5}, classes=classes)


def _failures(found: Found) -> str:
    rows = [
        [record.outcome, record.detail, _label(record)]
        for record in found.records.values()
        if not told.is_measured(record)
    ]
    if not rows:
        return "<p>Every candidate that was tried could be measured.</p>"
    return _table(("outcome", "why", "candidate"), rows)


def _label(record: Record) -> str:
    return " ".join(f"{k}={v}" for k, v in record.values if v is not None)


def _table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    classes: Sequence[str] = (),
) -> str:
    right = set(numbers)

    def cell(index: int, text: str, tag: str) -> str:
        mark = ' class="number"' if index in right else ""
        return f"<{tag}{mark}>{text}</{tag}>"

    lines = ["".join(cell(i, head, "th") for i, head in enumerate(heads))]
    for number, row in enumerate(rows):
        mark = f' class="{classes[number]}"' if classes and classes[number] else ""
        cells = "".join(cell(i, html.escape(text), "td") for i, text in enumerate(row))
        lines.append(f"</tr><tr{mark}>{cells}")
    return f'<div class="wide"><table><tr>{"".join(lines)}</tr></table></div>'


def scatter(subject: Subject, found: Found) -> str:
    """Returns a drawing of the predicted against the measured times, as SVG."""
    points = [
        (subject.costs[r.digest].us, statistics.median(r.us), r)
        for r in found.ranked.records
    ]
    if not points:
        return "<p>Nothing was measured.</p>"
    times = [us for x, y, _ in points for us in (x, y)]
    low, high = 0.95 * min(times), 1.05 * max(times)

    def at(us: float, size: int, *, flipped: bool = False) -> float:
        part = (us - low) / (high - low)
        inner = size - 2 * MARGIN
        return round(MARGIN + inner * (1 - part if flipped else part), 1)

    tied = {record.digest for record in found.ranked.tied}
    winner = found.winner.digest if found.winner else ""
    marks = []
    for x, y, record in reversed(points):
        colour = "#2a7d2a" if record.digest in tied else "#4a6fa5"
        radius = 6 if record.digest == winner else 3
        about = html.escape(f"{y:.2f} us, predicted {x:.2f}: {_label(record)}")
        marks.append(
            f'<circle cx="{at(x, WIDTH)}" cy="{at(y, HEIGHT, flipped=True)}"'
            f' r="{radius}" fill="{colour}" fill-opacity="0.7"><title>{about}</title>'
            "</circle>"
        )
    left, right = at(low, WIDTH), at(high, WIDTH)
    bottom, top = at(low, HEIGHT, flipped=True), at(high, HEIGHT, flipped=True)
    return "\n".join(
        [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Predicted and'
            ' measured times of every candidate">',
            f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#999"/>',
            f'<path d="M{left} {bottom}L{right} {top}" stroke="#ccc"'
            ' stroke-dasharray="4"/>',
            *marks,
            *_labels(low, high),
            "</svg>",
            "<p>Each point is a candidate; on the dashed line it was predicted right."
            " Green: within the tie band. The large one is the winner.</p>",
        ]
    )


def _labels(low: float, high: float) -> tuple[str, ...]:
    bottom = HEIGHT - MARGIN
    return (
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">predicted us'
        "</text>",
        f'<text x="16" y="{HEIGHT / 2}" text-anchor="middle"'
        f' transform="rotate(-90 16 {HEIGHT / 2})">measured us</text>',
        f'<text x="{MARGIN}" y="{bottom + 16}">{low:.1f}</text>',
        f'<text x="{WIDTH - MARGIN}" y="{bottom + 16}" text-anchor="end">{high:.1f}'
        "</text>",
        f'<text x="{MARGIN - 6}" y="{bottom}" text-anchor="end">{low:.1f}</text>',
        f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">{high:.1f}</text>',
    )
