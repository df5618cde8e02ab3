"""Finds the best configuration of JAX's shipped matmul for a product, within a budget."""

import dataclasses
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kgen.measure import example, process
from kgen.measure.peers import NoPeerError
from kgen.measure.problem import Problem
from kgen.measure.results import Tried

BUDGET_S = 120.0
LIMIT_S = 60.0
"""Seconds in which one configuration must be compiled, and in which it must run."""

FINALISTS = 2
MOST_WORKERS = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """What a sweep found.

    Attributes:
      finalists: The fastest configurations, as fields of `example.Example`.
      tried: Every configuration that was tried.
      detail: Why there are no finalists; empty if there are.
      note: What is to be known of it.
    """

    finalists: tuple[dict[str, Any], ...] = ()
    tried: tuple[Tried, ...] = ()
    detail: str = ""
    note: str = ""


def run(
    problem: Problem, *, session: str, arch: str, budget: float, limit: float = LIMIT_S
) -> Sweep:
    """Tries as many configurations as the budget allows.

    Args:
      problem: The product.
      session: What workers measure with, as `kgen.measure.worker` takes it.
      arch: Its architecture.
      budget: Seconds for all of them.
      limit: Seconds for compiling one, and for running one.
    """
    try:
        configurations = example.examples(problem)
    except NoPeerError as error:
        return Sweep(detail=str(error))
    with tempfile.TemporaryDirectory(prefix="kgen-sweep-") as directory:
        job = {
            "task": "sweep",
            "session": session,
            "arch": arch,
            "problem": dataclasses.asdict(problem),
            "configurations": [dataclasses.asdict(each) for each in configurations],
            "lock": str(Path(directory, "gpu.lock")),
            "limit": limit,
        }
        pool = _Pool(job, len(configurations), time.monotonic() + budget)
        pool.run(min(MOST_WORKERS, len(os.sched_getaffinity(0))))
    return _summed_up(configurations, pool.found, budget)


class _Pool:
    """Workers that take the configurations one by one.

    Attributes:
      found: Time and detail of each that was tried, by its index.
    """

    def __init__(self, job: dict[str, Any], count: int, deadline: float) -> None:
        self._job, self._deadline = job, deadline
        self._left = list(range(count))
        self._lock, self._stop = threading.Lock(), threading.Event()
        self.found: dict[int, dict[str, Any]] = {}

    def run(self, workers: int) -> None:
        """Returns when everything is tried, or the time is over."""
        shares = [self._left[index::workers] for index in range(workers)]
        with ThreadPoolExecutor(workers) as threads:
            futures = [threads.submit(self._work, share) for share in shares if share]
            try:
                for future in futures:
                    future.result()
            finally:
                # After an error, ctrl-C included: the other threads end, too.
                self._stop.set()

    def _work(self, share: list[int]) -> None:
        """Tries a share; a worker that ends early is replaced by another."""
        while share and time.monotonic() < self._deadline:
            begun = None
            job = {**self._job, "indices": share}
            try:
                for event in process.events(
                    job,
                    limit=self._job["limit"],
                    deadline=self._deadline,
                    stop=self._stop,
                ):
                    if event["event"] == "begin":
                        begun = event["index"]
                    elif event["event"] == "tried":
                        share = [index for index in share if index != event["index"]]
                        self._note(event["index"], event["us"], event["detail"])
                        begun = None
            except process.OutOfTimeError:
                return
            except process.EndedError as error:
                lost = share[0] if begun is None else begun
                share = [index for index in share if index != lost]
                self._note(lost, None, str(error).splitlines()[0])

    def _note(self, index: int, us: float | None, detail: str) -> None:
        with self._lock:
            self.found[index] = {"us": us, "detail": detail}


def _summed_up(
    configurations: Sequence[example.Example],
    found: dict[int, dict[str, Any]],
    budget: float,
) -> Sweep:
    tried = tuple(
        Tried(configuration=str(configurations[index]), **found[index])
        for index in sorted(found)
    )
    timed = sorted((f["us"], i) for i, f in found.items() if f["us"] is not None)
    count = f"{len(tried)} of {len(configurations)} configurations tried"
    if not timed:
        reasons = [each.detail for each in tried if each.detail]
        why = f"; the first: {reasons[0]}" if reasons else ""
        return Sweep(tried=tried, detail=f"{count} in {budget:g} s, none ran{why}")
    best = tuple(dataclasses.asdict(configurations[i]) for _, i in timed[:FINALISTS])
    return Sweep(finalists=best, tried=tried, note=count)
