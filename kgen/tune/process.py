"""One worker process of a tuner, as its parent sees it."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from kgen.processes import (
    TAIL_BYTES,
    absolute_pythonpath,
    has_ended,
    how_it_ended,
    kill_group,
)
from kgen.tune.tasks import Setup, Task
from kgen.verify.process import GPU_VARIABLES, KEPT_VARIABLES

START, IDLE, PREPARE, WAIT, MEASURE = "start", "idle", "prepare", "wait", "measure"
RETIRED = "retired"
"""What a worker does that is about to end, since the device may be in a bad state."""


@dataclasses.dataclass(kw_only=True, eq=False)
class Process:
    """A process, and what it does.

    Attributes:
      process: The process.
      phase: What it does now.
      since: When it began that.
      task: What it works on, if anything.
      begun: When it got that.
    """

    process: subprocess.Popen[bytes]
    phase: str = START
    since: float = dataclasses.field(default_factory=time.monotonic)
    task: Task | None = None
    begun: float = 0.0
    _pending: bytes = b""
    _errors: bytes = b""

    @classmethod
    def start(cls, setup: Setup, common: Path, number: int) -> Self:
        """Starts a worker.

        Args:
          setup: What it is told.
          common: A directory that all workers of a run share.
          number: Which of them it is.
        """
        directory = common / str(number)
        directory.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kgen.tune.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=_environment(common),
            start_new_session=True,
        )
        worker = cls(process=process)
        for pipe in worker.pipes:
            os.set_blocking(pipe.fileno(), False)
        worker._write(
            {
                **dataclasses.asdict(setup),
                "directory": str(directory),
                "lock": str(common / "device.lock"),
                "parent": os.getpid(),
            }
        )
        return worker

    @property
    def pipes(self) -> tuple[Any, Any]:
        """What it writes to: events, and errors."""
        return self.process.stdout, self.process.stderr

    def enter(self, phase: str) -> None:
        """Notes what it does now."""
        self.phase, self.since = phase, time.monotonic()

    def give(self, task: Task, number: int) -> None:
        """Gives it a candidate."""
        self.task, self.begun = task, time.monotonic()
        self.enter(PREPARE)
        name = f"candidate_{number}"
        self._write({"name": name, "source": task.source, "rounds": task.rounds})

    def _write(self, told: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # Its end is noticed soon.
            self.process.stdin.write(json.dumps(told).encode() + b"\n")
            self.process.stdin.flush()

    def hear(self, pipe: Any) -> list[dict[str, Any]] | None:
        """Returns the events that a pipe has; None at its end."""
        try:
            data = os.read(pipe.fileno(), 65_536)
        except BlockingIOError:
            return []
        if not data:
            return None
        if pipe is self.process.stderr:
            self._errors = (self._errors + data)[-TAIL_BYTES:]
            return []
        *lines, self._pending = (self._pending + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def has_ended(self) -> bool:
        """Whether it has ended; it is not waited for yet."""
        return has_ended(self.process)

    def how_it_ended(self) -> str:
        """Returns by what it ended, with the last lines of its stderr."""
        return how_it_ended(self.process, self._errors)

    def end(self) -> None:
        """Kills it with all its descendants, and waits for it."""
        kill_group(self.process)
        for pipe in (self.process.stdin, *self.pipes):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _environment(directory: Path) -> dict[str, str]:
    """Returns a worker's environment: the same whatever the user has set."""
    names = (*KEPT_VARIABLES, *GPU_VARIABLES)
    root = str(Path(__file__).parents[2])
    return {
        **{name: os.environ[name] for name in names if name in os.environ},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([root, *absolute_pythonpath()])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        # Several workers share the GPU.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        # All of them are compared with one and the same kernel of XLA.
        "XLA_FLAGS": f"--xla_gpu_per_fusion_autotune_cache_dir={directory}",
    }
