"""Runs a function over many items at once; results come in the order of the items.

Whatever ends a run early, ctrl-C included, ends its processes too.
"""

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kgen.errors import ExitCode, KgenError
from kgen.processes import ENDING, die_with_parent, signals_blocked, signals_held

# Yields the futures in their order, each when it is done; may show progress meanwhile.
type Track = Callable[[Sequence[Future[Any]], str], Iterable[Future[Any]]]


class WorkerError(KgenError):
    """A worker process has died."""

    exit_code = ExitCode.IO


def in_processes[Item, Result](
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    jobs: int,
    track: Track,
    doing: str,
) -> Generator[Result]:
    """Yields `function(item)` of every item, worked out in `jobs` processes.

    The first item is worked on in this process. What that imports is then there in
    the workers too, since they are forked.

    Args:
      function: A function of a module; it may be called in another process.
      items: Its arguments.
      jobs: Processes; with 1, or in a process with threads, everything happens in this
        one.
      track: Waits for the results.
      doing: What `function` does, such as "rendering".

    Raises:
      WorkerError: a process has died.
    """
    first, rest = items[:1], items[1:]
    for item in first:
        yield function(item)
    if jobs == 1 or not _may_fork():
        yield from map(function, rest)
        return
    if not rest:
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    before = _children()
    pool = ProcessPoolExecutor(
        min(jobs, len(rest)),
        multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(os.getpid(),),
    )
    try:
        # A process that has just begun is not ready for a signal.
        with signals_blocked():
            futures = [pool.submit(function, item) for item in rest]
        for future in track(futures, doing):
            yield future.result()
    except BrokenProcessPool:
        raise WorkerError(
            f"a process died while {doing}; was there enough memory?\n"
            "  hint: do less at once with -j"
        ) from None
    except BaseException:
        _kill(_children() - before)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def in_threads[Item, Result](
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    jobs: int,
    track: Track,
    doing: str,
) -> Generator[Result]:
    """Yields `function(item)` of every item, for functions that wait for processes.

    Args:
      function: Starts a process, waits for it, and returns soon if that is killed.
      items: Its arguments.
      jobs: Threads.
      track: Waits for the results.
      doing: What `function` does, such as "verifying".
    """
    before = _children()
    pool = ThreadPoolExecutor(jobs)
    try:
        # Within the block: a signal may have come as soon as the first thread ran. The
        # pool knows of its threads only when all are started.
        with signals_held():
            futures = [pool.submit(function, item) for item in items]
        for future in track(futures, doing):
            yield future.result()
    finally:
        end = functools.partial(pool.shutdown, cancel_futures=True)
        ending = threading.Thread(target=end)
        ending.start()
        # A thread may be about to start a process: look again until all have ended.
        while ending.is_alive():
            _kill(_children() - before)
            ending.join(0.02)


def _may_fork() -> bool:
    """Whether no thread but this one runs: a lock that it held would stay locked."""
    # Of the system, not of Python: libraries have threads of their own.
    threads = len(list(Path("/proc/self/task").iterdir()))
    return threads == 1 and "jax" not in sys.modules  # JAX warns of every fork.


def _begin(parent: int) -> None:
    die_with_parent(parent)
    # A terminal sends ctrl-C to every process; the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _children() -> set[int]:
    """Returns the processes that this one has started (Linux)."""
    children = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # After the name, which may hold anything: state, then parent.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                children.add(int(process.name))
    return children


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
