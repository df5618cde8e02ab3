"""The search: measures candidates in the order of the model, then the best once more."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kgen.errors import TemplateError
from kgen.tune import choose
from kgen.tune.choose import Ranked
from kgen.tune.pool import Pool
from kgen.tune.prune import Legal
from kgen.tune.records import FINAL, MEASURED, RAISE, SEARCH, Key, Record
from kgen.tune.store import Store
from kgen.tune.tasks import Done, Task

ROUNDS, FINAL_ROUNDS = 4, 16
# Of the budget, for measuring the best once more.
FINAL_SHARE, MOST_FINAL_SECONDS = 0.15, 60.0


class Progress(Protocol):
    """Is told how a search goes on."""

    def begin(self, doing: str, total: int, known: int) -> None:
        """So many candidates are to be measured, of which some are known."""

    def done(self, record: Record, legal: Legal, best: Record | None) -> None:
        """A candidate has its result."""

    def end(self) -> None:
        """All is measured that will be."""

    def tell(self, text: str) -> None:
        """Something else is to be known."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """What a search has found.

    Attributes:
      records: Every result of the search by the candidate's digest.
      ranked: Those that were measured, the fastest first.
      final: Those of them that were measured again.
      winner: The winner; None if no candidate was measured.
      left: Candidates that were not tried.
    """

    records: Mapping[str, Record]
    ranked: Ranked
    final: Ranked
    winner: Record | None
    left: int


class Search:
    """Searches among the candidates of one spec at one shape."""

    def __init__(
        self,
        key: Key,
        candidates: Sequence[Legal],
        *,
        store: Store,
        pool: Pool,
        text_of: Callable[[Legal], str],
        progress: Progress,
        deadline: float,
        budget: float,
    ) -> None:
        """Takes what is needed; `deadline` is one of `time.monotonic`."""
        self._key = key
        self._candidates = candidates
        self._store = store
        self._pool = pool
        self._text_of = text_of
        self._progress = progress
        self._deadline = deadline
        self._reserve = min(MOST_FINAL_SECONDS, FINAL_SHARE * budget)
        self._legal = {each.digest: each for each in candidates}

    def run(self) -> Found:
        """Measures until all is measured or the budget is spent, and chooses."""
        before_final = self._deadline - self._reserve
        records = self._measure(
            "measuring", self._candidates, SEARCH, ROUNDS, before_final
        )
        ranked = choose.rank(r for r in records.values() if r.outcome == MEASURED)
        again = choose.finalists(ranked, self._legal)
        final = choose.Ranked(records=(), band=ranked.band)
        if len(again) > 1:
            tied = [self._legal[record.digest] for record in again]
            measured = self._measure(
                "measuring the best again", tied, FINAL, FINAL_ROUNDS, self._deadline
            )
            final = choose.rank(r for r in measured.values() if r.outcome == MEASURED)
        return Found(
            records=records,
            ranked=ranked,
            final=final,
            winner=choose.winner(final if final.records else ranked, self._legal),
            left=len(self._candidates) - len(records),
        )

    def _measure(
        self,
        doing: str,
        candidates: Sequence[Legal],
        stage: str,
        rounds: int,
        until: float,
    ) -> dict[str, Record]:
        """Returns the result of every candidate that has one, by its digest."""
        found: dict[str, Record] = {}
        pending: list[Legal] = []
        for each in candidates:
            record = self._store.get(self._key, each.digest, stage)
            if record is None:
                pending.append(each)
            else:
                found[each.digest] = record
        best = min(_measured(found.values()), key=choose.score, default=None)
        self._progress.begin(doing, len(candidates), len(found))
        try:
            tasks = self._tasks(pending, stage, rounds, found)
            for done in self._pool.run(tasks, lambda: time.monotonic() < until):
                legal: Legal = done.task.tag
                record = self._record(legal, stage, done)
                self._store.add(record)
                found[legal.digest] = record
                best = _faster(best, record)
                self._progress.done(record, legal, best)
        finally:
            self._progress.end()
        return found

    def _tasks(
        self,
        pending: Iterable[Legal],
        stage: str,
        rounds: int,
        found: dict[str, Record],
    ) -> Iterator[Task]:
        """Yields the candidates as tasks; one whose template fails has its result."""
        for legal in pending:
            try:
                source = self._text_of(legal)
            except TemplateError as error:
                record = dataclasses.replace(
                    self._blank(legal, stage), outcome=RAISE, detail=str(error)
                )
                self._store.add(record)
                found[legal.digest] = record
                self._progress.done(record, legal, None)
                continue
            yield Task(tag=legal, source=source, rounds=rounds)

    def _blank(self, legal: Legal, stage: str) -> Record:
        return Record(
            key=self._key,
            digest=legal.digest,
            values=legal.candidate.values,
            stage=stage,
            outcome=RAISE,
        )

    def _record(self, legal: Legal, stage: str, done: Done) -> Record:
        return dataclasses.replace(
            self._blank(legal, stage),
            outcome=done.outcome,
            us=done.us,
            peer_us=done.peer_us,
            detail=done.detail,
            seconds=done.seconds,
        )


def _measured(records: Iterable[Record]) -> Iterator[Record]:
    return (record for record in records if record.outcome == MEASURED)


def _faster(best: Record | None, record: Record) -> Record | None:
    measured = _measured([record] if best is None else [best, record])
    return min(measured, key=choose.score, default=None)
