"""How a search is told: a bar on a terminal, a line a candidate elsewhere."""

import statistics
import sys
from typing import TYPE_CHECKING

from kgen.streams import tell
from kgen.tune.prune import Legal
from kgen.tune.records import MEASURED, Record

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


def make_progress() -> "Lines":
    """Returns what suits stderr."""
    return Bars() if sys.stderr.isatty() else Lines()


class Lines:
    """Tells every result on a line of its own."""

    _total = 0
    _count = 0

    def begin(self, doing: str, total: int, known: int) -> None:
        """So many candidates are to be measured, of which some are known."""
        self._total, self._count = total, known
        plural = "" if total == 1 else "s"
        kept = f", {known} of them known" if known else ""
        self.tell(f"{doing}: {total} candidate{plural}{kept}")

    def done(self, record: Record, legal: Legal, best: Record | None) -> None:
        """A candidate has its result."""
        self._count += 1
        self.tell(
            f"[{self._count}/{self._total}] {describe(record)}  {legal.candidate.label}"
        )

    def end(self) -> None:
        """All is measured that will be."""

    def tell(self, text: str) -> None:
        """Prints a message."""
        tell(text)


class Bars(Lines):
    """Shows how many candidates are measured, and the fastest so far."""

    _bar: "Bar | None" = None
    _task: "TaskID"

    def begin(self, doing: str, total: int, known: int) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[best]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(doing, total=total, completed=known, best="")
        self._bar.start()

    def done(self, record: Record, legal: Legal, best: Record | None) -> None:
        assert self._bar is not None, "begin comes first"
        shown = "" if best is None else f"best {describe(best)}"
        self._bar.update(self._task, advance=1, best=shown)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def describe(record: Record) -> str:
    """Returns a result in a few words."""
    if record.outcome != MEASURED:
        first = record.detail.splitlines()[0] if record.detail else ""
        return f"{record.outcome}: {first}" if first else record.outcome
    us = statistics.median(record.us)
    if not record.peer_us:
        return f"{us:.1f} us"
    return f"{us:.1f} us, {statistics.median(record.peer_us) / us:.3f} of XLA's speed"
