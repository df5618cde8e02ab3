"""The job summary of GitHub Actions, in Markdown."""

import html
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kgen.errors import Problem

if TYPE_CHECKING:
    from kgen.verdicts import Result
    from kgen.verify.request import LevelResult

# GitHub refuses a summary of more than 1 MiB per step.
LONGEST_DETAIL = 8_000


class Summary:
    """Collects what a run finds, and tells it in tables."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._up_to_date = 0
        self._files: list[tuple[str, str, str]] = []
        self._edits: list[tuple[str, str]] = []
        self._problems: list[tuple[str, str]] = []
        self._results: list[Result] = []

    def add_file(self, state: str, path: str, remark: str) -> None:
        """Adds how a file compares with what its spec yields."""
        if state == "unchanged":
            self._up_to_date += 1
        else:
            self._files.append((_code(path), state, _text(remark)))

    def add_edits(self, path: str, diff: str) -> None:
        """Adds what someone changed in a file, as a unified diff."""
        self._edits.append((path, diff))

    def add_problem(self, problem: Problem) -> None:
        """Adds what is wrong with a spec."""
        place, _, text = str(problem).partition(f": {problem.code} ")
        self._problems.append((_code(place), _text(f"{problem.code} {text}")))

    def add_error(self, message: str) -> None:
        """Adds why something could not be done."""
        self._problems.append(("", _text(message)))

    def add_result(self, result: "Result") -> None:
        """Adds what became of a target that was verified."""
        self._results.append(result)

    def text(self) -> str:
        """Returns the summary."""
        return "\n".join([f"## {self._title}", "", *self._sections()]) + "\n"

    def _sections(self) -> Iterator[str]:
        if self._problems:
            yield from _table(("place", "problem"), self._problems)
        if self._files:
            yield from _table(("file", "state", "why"), self._files)
        if self._up_to_date:
            plural = "" if self._up_to_date == 1 else "s"
            yield from (f"{self._up_to_date} file{plural} up to date.", "")
        for path, diff in self._edits:
            yield from (f"### {_code(path)}: edited", "", *_fenced(diff, "diff"))
        if self._results:
            yield from self._verdicts()

    def _verdicts(self) -> Iterator[str]:
        from kgen.verdicts import summary

        levels = dict.fromkeys(
            level.level
            for result in self._results
            for level in _levels(result)
            if level.level != "import"
        )
        rows = (
            (_code(result.label), *(_cell(result, level) for level in levels))
            for result in self._results
        )
        yield from _table(("kernel", *levels), rows)
        yield from (summary(self._results), "")
        for result in self._results:
            if not result.passed:
                yield from _detail(result)


def _levels(result: "Result") -> "tuple[LevelResult, ...]":
    return () if result.verdict is None else result.verdict.levels


def _cell(result: "Result", name: str) -> str:
    found = next((level for level in _levels(result) if level.level == name), None)
    if found is None:
        return ""
    word = found.status.replace("_", " ")
    if result.verdict is not None and result.verdict.remembered:
        return f"{word}, remembered"
    return f"**{word}**" if word == "failed" else word


def _detail(result: "Result") -> Iterator[str]:
    failure = None if result.verdict is None else result.verdict.failure
    head, text = "not verified", str(result.error)
    if failure is not None:
        head = f"{failure.level} {failure.status.replace('_', ' ')}"
        text = failure.detail
    yield from (f"### {_code(result.label)}: {head}", "", *_fenced(text, "text"))


def _fenced(text: str, language: str) -> Iterator[str]:
    """Yields text as a block of code, at most so much of it as a summary bears."""
    text = text.removesuffix("\n")
    if len(text) > LONGEST_DETAIL:
        text = f"{text[:LONGEST_DETAIL]} ..."
    fence = "```"
    while fence in text:
        fence += "`"
    yield from (f"{fence}{language}", text, fence, "")


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = tuple(heads)
    yield _row(heads)
    yield _row("---" for _ in heads)
    yield from map(_row, rows)
    yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _text(text: str) -> str:
    """Returns text for a cell of a table."""
    return "<br>".join(map(str.strip, html.escape(text, quote=False).split("\n")))


def _code(text: str) -> str:
    """Returns text as code, whatever it holds; line ends would end the table."""
    return f"`{' '.join(text.split()).replace('`', chr(39))}`"
