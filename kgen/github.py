"""What a run tells in GitHub Actions: annotations in the pull request, a job summary.

`--format github` puts a `GithubReport` in the place of the plain one. An annotation is
a line on stdout that the runner turns into a remark at a line of the diff; a summary is
Markdown, appended to the file that GITHUB_STEP_SUMMARY names.
"""

import dataclasses
import os
import re
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click

from kgen.emit.write import file_error
from kgen.errors import KgenError, Problem, SpecError
from kgen.github_summary import Summary
from kgen.report import Report

if TYPE_CHECKING:
    from kgen.pipeline import Outcome
    from kgen.verdicts import Result

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
WORKSPACE_VARIABLE = "GITHUB_WORKSPACE"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotation:
    """An error at a place of the repository.

    Attributes:
      title: A few words.
      message: What is wrong; may have several lines.
      path: The file as the user named it; None where there is no such place.
      line: Its line, from 1; None for the file as a whole.
    """

    title: str
    message: str
    path: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        properties = {
            "file": None if self.path is None else _in_repository(self.path),
            "line": None if self.path is None else str(self.line or 1),
            "title": self.title,
        }
        given = [f"{key}={_escape(v, ':,')}" for key, v in properties.items() if v]
        return f"::error {','.join(given)}::{_escape(self.message)}"


class GithubReport(Report):
    """A report that also annotates what is wrong, and ends with a job summary."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._summary = Summary(title)
        self._lines: dict[Path, int | None] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        if isinstance(error, KgenError):
            self._annotate_error(error)
        if path := os.environ.get(SUMMARY_VARIABLE):
            try:
                with Path(path).open("a", encoding="utf-8", errors="replace") as file:
                    file.write(self._summary.text())
            except OSError as fault:
                if error is None:  # It says more.
                    what = f"append to {SUMMARY_VARIABLE},"
                    raise file_error(what, Path(path), fault) from None

    def compared(self, outcome: "Outcome", *, required: bool) -> None:
        from kgen.diffs import first_difference

        for target in outcome.targets:
            self._lines[target.path] = first_difference(target)
        super().compared(outcome, required=required)

    def found(
        self,
        state: str,
        path: Path,
        remark: str | None,
        *,
        required: bool,
        line: int | None = None,
    ) -> None:
        super().found(state, path, remark, required=required)
        self._summary.add_file(state, str(path), remark or "")
        if state != "unchanged" and required:
            _annotate(
                Annotation(
                    title=f"kgen: {state}",
                    message=f"{path}: {remark or state}",
                    path=str(path),
                    line=line or self._lines.get(path),
                )
            )

    def edits(self, path: Path, text: str) -> None:
        super().edits(path, text)
        if text:
            self._summary.add_edits(str(path), text)

    def not_compared(self, error: KgenError) -> None:
        super().not_compared(error)
        self._annotate_error(error)

    def verified(self, result: "Result", text: str) -> None:
        """Annotates a failure; `text` is not printed.

        It may hold lines of the kernel, and the runner obeys every line that begins
        with two colons.
        """
        from kgen.verdicts import text_of

        super().verified(result, text_of(result).partition("\n")[0])
        self._summary.add_result(result)
        if not result.passed:
            _annotate(annotation_of(result))

    def _annotate_error(self, error: KgenError) -> None:
        problems = error.problems if isinstance(error, SpecError) else ()
        for problem in problems:
            self._summary.add_problem(problem)
            _annotate(_annotation_of_problem(problem))
        if not problems:
            self._summary.add_error(str(error))
            _annotate(Annotation(title="kgen", message=str(error)))


def annotation_of(result: "Result") -> Annotation:
    """Returns the annotation of a target that did not pass.

    It stands at the first line of the target's own file that the verdict names.
    """
    failure = None if result.verdict is None else result.verdict.failure
    title, message = "kgen: not verified", str(result.error)
    if failure is not None:
        title = f"kgen: {failure.level} {failure.status.replace('_', ' ')}"
        message = failure.detail or "no level was run"
    return Annotation(
        title=title,
        message=f"{result.label}\n{message}",
        path=result.path,
        line=None if result.path is None else _line_in(message, result.path),
    )


def _line_in(message: str, path: str) -> int | None:
    place = re.search(rf"(?<!\w){re.escape(Path(path).name)}:(\d+)", message)
    return None if place is None else int(place[1])


def _annotation_of_problem(problem: Problem) -> Annotation:
    # Its first line is the place, which the annotation has, and the code.
    _, _, text = str(problem).partition(f": {problem.code} ")
    return Annotation(
        title=f"kgen: {problem.code}",
        message=text,
        path=problem.path,
        line=problem.line,
    )


def _annotate(annotation: Annotation) -> None:
    click.echo(str(annotation).encode(errors="replace"))


def _in_repository(path: str) -> str:
    """Returns a path as the repository has it, wherever the command was started."""
    root = os.environ.get(WORKSPACE_VARIABLE)
    place = Path(os.path.realpath(path))
    if not root or not place.is_relative_to(os.path.realpath(root)):
        return path
    return place.relative_to(os.path.realpath(root)).as_posix()


def _escape(text: str, also: str = "") -> str:
    """Returns text as the runner reads it, without line ends."""
    return re.sub(f"[%\r\n{also}]", lambda found: f"%{ord(found[0]):02X}", text)
