"""Runs measuring in worker processes: one that hangs or dies is a result.

A worker sends events, as the verifier's does. These are of this module:

    {"event": "stage", "text": "compiling", "seconds": 60}   what it does now, and how
                                                             long that may take
    {"event": "error", "kind": "UsageError", "text": "..."}  it cannot go on

Every other event is handed to the caller.
"""

import json
import math
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

from kgen.measure.timing import MeasuringError
from kgen.processes import TAIL_BYTES, has_ended, how_it_ended, read
from kgen.verify.process import POLL_SECONDS, worker_process
from kgen.verify.scratch import private_directory

WORKER = "kgen.measure.worker"


class EndedError(Exception):
    """A worker ended without a result, or was ended; the message says how."""


class OutOfTimeError(Exception):
    """The deadline came before the worker was done."""


class RefusedError(MeasuringError):
    """A worker told why it cannot measure anything."""


def events(
    job: dict[str, Any],
    *,
    limit: float,
    deadline: float = math.inf,
    stop: threading.Event | None = None,
) -> Iterator[dict[str, Any]]:
    """Runs a job in a process of its own and yields its events.

    However the generator ends, nothing of the process is left.

    Args:
      job: What the worker is told; `task` names what it does.
      limit: Seconds that it may take, if the worker names no other limit.
      deadline: When it must be done, as `time.monotonic` counts.
      stop: Set by another thread if it must end now.

    Raises:
      EndedError: the worker ended before it sent "done", or a stage took too long.
      OutOfTimeError: the deadline has come, or it was stopped.
      RefusedError: it cannot measure, whatever the kernel.
    """
    with private_directory() as directory:
        told = {**job, "directory": directory, "parent": os.getpid()}
        with worker_process(told, directory, gpu=True, module=WORKER) as worker:
            yield from _Listener(limit, deadline, stop or threading.Event()).listen(
                worker
            )


class _Listener:
    """Reads what one worker sends."""

    def __init__(self, limit: float, deadline: float, stop: threading.Event) -> None:
        self._deadline, self._stop = deadline, stop
        self._limit = self._allowed = limit
        self._stage = ""
        self._started = time.monotonic()
        self._pending = b""
        self._errors = b""

    def listen(self, worker: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
        """Yields events until the worker is done."""
        assert worker.stdout is not None
        assert worker.stderr is not None
        with selectors.DefaultSelector() as selector:
            for pipe in (worker.stdout, worker.stderr):
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ)
            while True:
                # Looked at first: what a dead worker wrote is then all in the pipes.
                ended = has_ended(worker)
                for key, _ in selector.select(0 if ended else POLL_SECONDS):
                    if not (data := read(key.fileobj)):
                        selector.unregister(key.fileobj)
                    elif key.fileobj is worker.stderr:
                        self._errors = (self._errors + data)[-TAIL_BYTES:]
                    else:
                        for event in self._take(data):
                            if event["event"] == "done":
                                return
                            yield event
                if ended:
                    how = how_it_ended(worker, self._errors)
                    raise EndedError(f"{self._stage}: {how}" if self._stage else how)
                now = time.monotonic()
                if now > self._deadline or self._stop.is_set():
                    raise OutOfTimeError
                if now - self._started > self._allowed:
                    where = f" ({self._stage})" if self._stage else ""
                    raise EndedError(f"no result within {self._allowed:g} s{where}")

    def _take(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yields the events in a piece of the worker's stdout."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "error":
                raise RefusedError(event["text"])
            if event["event"] == "stage":
                self._stage = event["text"]
                if event["seconds"] is not None:
                    self._started = time.monotonic()
                    self._allowed = event["seconds"] or self._limit
            yield event
