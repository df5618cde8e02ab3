"""What a run tells: one object owns the messages, the counts and the exit code.

Messages go to stderr; stdout belongs to what was asked for, such as a diff.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from kgen.errors import ExitCode, KgenError, VerificationError
from kgen.streams import tell

if TYPE_CHECKING:
    from rich.progress import Progress

    from kgen.emit.tree import Orphan
    from kgen.emit.write import Target
    from kgen.pipeline import Outcome
    from kgen.verdicts import Result
    from kgen.verify.request import Verdict

# A bar that would vanish at once only flickers.
SECONDS_BEFORE_A_BAR = 0.5

# What is counted, in the order in which the summary tells it.
_MADE = (
    "rendered",
    "unchanged",
    "failed verification",
    "not written",
    "edited",
    "foreign",
    "removed",
    "orphaned",
    "untracked",
)
_COMPARED = (
    "differs",
    "stale",
    "missing",
    "edited",
    "foreign",
    "orphaned",
    "untracked",
    "up to date",
    "not compared",
)


class Report:
    """Counts and tells what becomes of each spec.

    Attributes:
      exit_code: The code that the command ends with.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.exit_code = ExitCode.OK
        self._quiet = quiet
        self._verbose = verbose
        self._counts: Counter[str] = Counter()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_bar()

    def made(self, outcome: "Outcome", *, tests_only: bool = False) -> None:
        """Tells what became of a spec that was to be rendered, or its test alone."""
        if (error := outcome.error) is not None:
            unverified = isinstance(error, VerificationError)
            self._counts["failed verification" if unverified else "not written"] += 1
            self._fail(error)
            return
        changed = [t for t in outcome.targets if t.state != "unchanged"]
        word = "rendered" if changed else "unchanged"
        self._counts[word] += 1
        # The module stands for both, unless only the test changed.
        path = (changed or outcome.targets)[-1].path
        levels = "" if tests_only else f" ({name_levels(outcome.verdict)})"
        self._say(f"{word} {path}{levels}", bold=bool(changed))
        for target in outcome.targets:
            if target.path != path:
                word = "rendered" if target in changed else "unchanged"
                self.note(f"{word} {target.path}")

    def verified(self, result: "Result", text: str) -> None:
        """Prints the text of a verdict to stdout, and weighs it."""
        if not result.passed:
            error = result.error
            self._weigh(error.exit_code if error else ExitCode.NOT_VERIFIED)
        if not text:
            return
        # The bar is drawn on the same terminal.
        if self._bar is not None:
            self._bar.stop()
        click.echo(text.encode(errors="surrogateescape"))
        if self._bar is not None:
            self._bar.start()

    def compared(self, outcome: "Outcome", *, required: bool) -> None:
        """Tells how the files of a spec compare; a difference fails if `required`."""
        if outcome.error is not None:
            self.not_compared(outcome.error)
            return
        for target in reversed(outcome.targets):
            self.found(target.state, target.path, _remark(target), required=required)

    def orphaned(self, orphans: "Sequence[Orphan]", *, required: bool) -> None:
        """Tells of kgen's files that no given spec makes; one fails if `required`."""
        for orphan in orphans:
            remark = "no given spec makes it"
            if orphan.edited:
                remark += "; it was edited since kgen wrote it"
            self.found("orphaned", orphan.path, remark, required=required)
        if orphans:
            lost = any(orphan.edited for orphan in orphans)
            edits = "; look at the edits first" if lost else ""
            self._say(f"  hint: delete what is no longer needed{edits}")

    def found(
        self,
        state: str,
        path: Path,
        remark: str | None,
        *,
        required: bool,
        line: int | None = None,
    ) -> None:
        """Tells how a file compares; anything but `unchanged` fails if `required`.

        `line` is the first one that differs, if that is known: for annotations.
        """
        if state == "unchanged":
            self._counts["up to date"] += 1
            self.note(f"unchanged {path}")
            return
        self._counts[state] += 1
        if required:
            self._weigh(ExitCode.DIFFERS)
        self._say(f"{state} {path}" + ("" if remark is None else f" ({remark})"))

    def edits(self, path: Path, text: str) -> None:
        """Prints what someone changed in a file to stdout, unless the user wants quiet."""
        if not self._quiet:
            # As bytes: a module is UTF-8, whatever the terminal's locale.
            click.echo(text.encode(errors="surrogateescape"), nl=False)

    def not_compared(self, error: KgenError) -> None:
        """Tells why a module and its test could not be compared."""
        self._counts["not compared"] += 2
        self._fail(error)

    def announce(self, text: str) -> None:
        """Tells `text` unless the user wants quiet."""
        self._say(text)

    def note(self, text: str) -> None:
        """Tells `text` if the user wants to know everything."""
        if self._verbose:
            self._say(text)

    def untracked(self, paths: Iterable[Path]) -> None:
        """Tells of files that git does not know; one fails."""
        for path in paths:
            self.found("untracked", path, "git add it", required=True)

    def sum_up_made(self, noun: str = "module") -> None:
        """Tells how many modules, or tests alone, were made, and how many not."""
        self._sum_up(noun, self._counted(*_MADE))

    def sum_up_compared(self) -> None:
        """Tells how many files were compared, and how they compare."""
        self._sum_up("file", self._counted(*_COMPARED))

    def _sum_up(self, noun: str, parts: list[str]) -> None:
        if parts:
            count, _, word = parts[0].partition(" ")
            parts[0] = f"{count} {noun if count == '1' else f'{noun}s'} {word}"
            self._say(f"{', '.join(parts)}.", bold=True)

    def _counted(self, *words: str) -> list[str]:
        return [
            f"{count} {'differ' if word == 'differs' and count > 1 else word}"
            for word in words
            if (count := self._counts[word])
        ]

    def track(
        self, futures: Sequence[Future[Any]], doing: str
    ) -> Iterator[Future[Any]]:
        """Yields each of `futures` when it is done, with a bar for a waiting user."""
        for future in futures:
            if self._bar is None and self._shows_bars:
                wait([future], SECONDS_BEFORE_A_BAR)
                if not future.done():
                    self._start_bar(futures, doing)
            wait([future])
            yield future
        self._end_bar()

    @property
    def _shows_bars(self) -> bool:
        return not self._quiet and _is_terminal()

    def _start_bar(self, futures: Sequence[Future[Any]], doing: str) -> None:
        from rich import progress
        from rich.console import Console

        bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = bar.add_task(doing, total=len(futures))
        bar.start()
        self._bar = bar
        for future in futures:
            future.add_done_callback(lambda _: bar.advance(task))

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _fail(self, error: KgenError) -> None:
        self._weigh(error.exit_code)
        self._print(format_error(str(error)))

    def _weigh(self, code: ExitCode) -> None:
        # Of several failures the one with the higher code is told.
        self.exit_code = max(self.exit_code, code)

    def _say(self, text: str, *, bold: bool = False) -> None:
        if not self._quiet:
            self._print(style(text, bold=bold))

    def _print(self, text: str) -> None:
        if self._bar is None:
            tell(text)
            return
        from rich.text import Text

        self._bar.console.print(Text.from_ansi(text), soft_wrap=True)


def format_error(text: str) -> str:
    """Returns an error as it is shown to the user."""
    return f"{style('error:', bold=True, fg='red')} {text}"


def style(text: str, *, bold: bool = False, fg: str | None = None) -> str:
    """Returns `text` in colour if it is for a terminal that shows it."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    if plain or not _is_terminal():
        return text
    return click.style(text, bold=bold or None, fg=fg)


def name_levels(verdict: "Verdict | None") -> str:
    """Returns the levels that a module has passed, with the seconds they took."""
    if verdict is None:
        return "unverified"
    levels = [level for level in verdict.levels if level.level != "import"]
    if verdict.remembered:
        return f"{', '.join(each.level for each in levels)}: remembered"
    return ", ".join(f"{each.level} {each.seconds:.1f} s" for each in levels)


def _remark(target: "Target") -> str | None:
    remarks = {
        "edited": "it was edited since kgen wrote it",
        "foreign": "it was not written by kgen",
    }
    return remarks.get(target.state, target.reason)


def _is_terminal() -> bool:
    return sys.stderr.isatty()
