"""Worker processes that compile candidates in parallel and measure one at a time.

A worker that takes too long is killed, one that dies is replaced, and either is a result
of the candidate that it had. Whatever ends this process, ends the workers.
"""

import contextlib
import selectors
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kgen.tune.process import IDLE, MEASURE, PREPARE, RETIRED, START, Process
from kgen.tune.records import ABORT, HANG
from kgen.tune.tasks import Done, Limits, PoolError, Setup, Task
from kgen.verify.scratch import private_directory

POLL_SECONDS = 0.1
# Workers that die one after the other before they are ready.
FEWEST_STARTS = 3


class Pool:
    """Workers for one problem; a context manager at whose end none of them is left.

    Attributes:
      machine: What the first worker that was ready found; None before.
    """

    def __init__(self, setup: Setup, *, jobs: int, limits: Limits) -> None:
        self.machine: dict[str, str] | None = None
        self._setup = setup
        self._jobs = jobs
        self._limits = limits
        self._workers: list[Process] = []
        self._failed_starts = 0
        self._count = 0
        self._stack = contextlib.ExitStack()
        self._selector = selectors.DefaultSelector()
        self._done: list[Done] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(self._selector)
        self._directory = Path(self._stack.enter_context(private_directory()))
        self._stack.callback(self._end_all)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def start(self) -> dict[str, str]:
        """Starts the workers; returns the machine that the first one finds.

        Raises:
          PoolError: nothing can be measured here.
        """
        while len(self._workers) < self._jobs:
            self._start_one()
        while self.machine is None:
            self._turn()
        return self.machine

    def run(
        self, tasks: Iterator[Task], may_begin: Callable[[], bool] = lambda: True
    ) -> Iterator[Done]:
        """Yields what becomes of each task, in the order in which they are done.

        Args:
          tasks: What to measure; the next one is taken when a worker is free.
          may_begin: Whether another task may begin. When it may not, those that have
            begun are finished.

        Raises:
          PoolError: nothing can be measured here.
        """
        more = True
        while more or any(worker.task for worker in self._workers):
            for worker in [w for w in self._workers if w.phase == IDLE]:
                task = next(tasks, None) if more and may_begin() else None
                more = task is not None
                if task is not None:
                    worker.give(task, self._next_number())
            self._turn()
            done, self._done = self._done, []
            yield from done
            more = more and may_begin()

    def _next_number(self) -> int:
        self._count += 1
        return self._count

    def _start_one(self) -> None:
        worker = Process.start(self._setup, self._directory, self._next_number())
        self._workers.append(worker)
        for pipe in worker.pipes:
            self._selector.register(pipe, selectors.EVENT_READ, worker)

    def _turn(self) -> None:
        """Takes what the workers say, and looks after those that say nothing."""
        # Looked at first: what a dead worker wrote is then all in the pipes.
        ended = [worker for worker in self._workers if worker.has_ended()]
        for key, _ in self._selector.select(0 if ended else POLL_SECONDS):
            worker: Process = key.data
            events = worker.hear(key.fileobj)
            if events is None:
                self._selector.unregister(key.fileobj)
            for event in events or ():
                self._take(worker, event)
        for worker in [*self._workers]:
            if worker in ended:
                self._bury(worker)
            elif (limit := self._passed_limit(worker)) is not None:
                self._kill(worker, limit)

    def _take(self, worker: Process, event: dict[str, Any]) -> None:
        match event["event"]:
            case "ready":
                self.machine = self.machine or event["machine"]
                self._failed_starts = 0
                worker.enter(IDLE)
            case "refused":
                raise PoolError(event["text"])
            case "phase":
                worker.enter(event["name"])
            case "done":
                us, peer_us = (tuple(event.get(name, ())) for name in ("us", "peer_us"))
                self._finish(worker, event["outcome"], event["detail"], us, peer_us)
                worker.enter(IDLE if event["usable"] else RETIRED)

    def _finish(
        self,
        worker: Process,
        outcome: str,
        detail: str,
        us: tuple[float, ...] = (),
        peer_us: tuple[float, ...] = (),
    ) -> bool:
        """Notes a result of what a worker had; returns whether it had anything."""
        task, worker.task = worker.task, None
        if task is None:
            return False
        self._done.append(
            Done(
                task=task,
                outcome=outcome,
                us=us,
                peer_us=peer_us,
                detail=detail,
                seconds=round(time.monotonic() - worker.begun, 2),
            )
        )
        return True

    def _passed_limit(self, worker: Process) -> float | None:
        """Returns the limit that a worker has passed, if it has."""
        limits = {
            START: self._limits.start,
            PREPARE: self._limits.prepare,
            MEASURE: self._limits.measure,
            RETIRED: self._limits.measure,
        }
        limit = limits.get(worker.phase)
        passed = limit is not None and time.monotonic() - worker.since > limit
        return limit if passed else None

    def _kill(self, worker: Process, limit: float) -> None:
        doing = {PREPARE: "compiled", MEASURE: "measured"}.get(worker.phase, "ready")
        had_task = self._finish(worker, HANG, f"not {doing} within {limit:g} s")
        if not had_task and worker.phase != RETIRED:
            self._failed_to_start(f"one was not {doing} within {limit:g} s")
        self._replace(worker)

    def _bury(self, worker: Process) -> None:
        """Makes a result of a worker that has ended, and starts another one."""
        doing = {PREPARE: "compiling", MEASURE: "measuring"}.get(worker.phase)
        how = worker.how_it_ended()
        had_task = self._finish(
            worker, ABORT, f"while {doing}: {how}" if doing else how
        )
        if not (had_task or worker.phase == RETIRED):
            self._failed_to_start(f"one ended at once: {how}")
        self._replace(worker)

    def _failed_to_start(self, why: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= max(FEWEST_STARTS, self._jobs):
            raise PoolError(f"workers cannot be started: {why}")

    def _replace(self, worker: Process) -> None:
        self._workers.remove(worker)
        for pipe in worker.pipes:
            with contextlib.suppress(KeyError):
                self._selector.unregister(pipe)
        worker.end()
        self._start_one()

    def _end_all(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()
