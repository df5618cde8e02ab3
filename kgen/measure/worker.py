"""The worker process that measures. It may hang or die; its parent makes a result of it.

It reads a job from stdin: `task` says what to do, and `session` names, as
`module:function`, what finds the GPU and tells times on it.
"""

import dataclasses
import importlib
import os
import textwrap
from collections.abc import Callable
from typing import Any

from kgen.errors import KgenError
from kgen.measure.timing import Measure
from kgen.processes import die_with_parent
from kgen.verify.worker import Events, read_job, take_stdout

TASKS = {
    "probe": "kgen.measure.machine:probe",
    "bench": "kgen.measure.bench_task:run",
    "sweep": "kgen.measure.sweep_task:run",
}

LONGEST_LINE = 300


@dataclasses.dataclass(frozen=True, kw_only=True)
class Session:
    """What a worker measures with.

    Attributes:
      device: A `jax.Device`.
      l2_bytes: Size of its L2 cache.
      measure: Tells the times of an executable's runs.
    """

    device: Any
    l2_bytes: int
    measure: Measure


def on_gpu(arch: str) -> Session:
    """Returns what measures on a GPU, by CUPTI.

    Raises:
      NoGpuError: there is no GPU of this architecture.
    """
    from kgen.measure import machine, timing

    device = machine.find_gpu(arch)
    return Session(device=device, l2_bytes=machine.l2_bytes(arch), measure=timing.cupti)


class Worker:
    """A job, and the way to its parent."""

    def __init__(self, job: dict[str, Any], events: Events) -> None:
        self.job = job
        self._events = events

    def session(self) -> Session:
        """Returns what the job says that it is measured with."""
        make: Callable[[str], Session] = _named(self.job["session"])
        return make(self.job["arch"])

    def stage(self, text: str, seconds: float | None = None) -> None:
        """Tells what is done now; with `seconds`, a new limit begins (0: the job's)."""
        self._events.send("stage", text=text, seconds=seconds)

    def send(self, event: str, **fields: Any) -> None:
        """Sends the parent an event."""
        self._events.send(event, **fields)


def in_a_line(error: Exception) -> str:
    """Returns what an exception says, cut to a line."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", LONGEST_LINE)


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def main() -> None:
    """Does the job on stdin."""
    events = take_stdout()
    job = read_job()
    die_with_parent(job["parent"])
    try:
        _named(TASKS[job["task"]])(Worker(job, events))
        events.send("done")
    except KgenError as error:
        events.send("error", text=str(error))
    # JAX's threads and the module's own must not hold up the end.
    os._exit(0)


if __name__ == "__main__":
    # Under the name by which stand-ins for a GPU import it.
    from kgen.measure.worker import main

    main()
