"""Runs the worker process and makes a verdict of whatever becomes of it.

The worker may hang, be killed or be aborted. Each is a failed level, told with what the
worker was doing; and whatever happens, also to this process, no process is left behind.
No file is either, but for those of a killed run, which a later one removes.
"""

import contextlib
import dataclasses
import json
import os
import select
import selectors
import signal
import site
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from kgen.processes import (
    TAIL_BYTES,
    absolute_pythonpath,
    has_ended,
    how_it_ended,
    kill_group,
    read,
)
from kgen.verify import cache
from kgen.verify.request import (
    FAILED,
    GPU,
    IMPORT,
    NOT_RUN,
    LevelResult,
    Request,
    Verdict,
)
from kgen.verify.scratch import private_directory

KEPT_VARIABLES = (
    "HOME",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONUSERBASE",
    "USER",
    "VIRTUAL_ENV",
)
"""What the worker may see of the user's environment: no JAX_*, no XLA_FLAGS."""

GPU_VARIABLES = ("CUDA_DEVICE_ORDER", "CUDA_ROOT", "CUDA_VISIBLE_DEVICES")
"""What the worker may see besides when it runs on a GPU."""

WORKER = "kgen.verify.worker"

MARK = "KGEN_VERIFY_DIRECTORY"
"""Marks the worker's processes, so that those that left its group are found, too."""

POLL_SECONDS = 0.05
LAST_WORDS_SECONDS = 0.5


def run(request: Request, levels: Sequence[str], timeout: float) -> Verdict:
    """Verifies `request` in a worker process of its own.

    Args:
      request: The module and what it is verified for.
      levels: The levels to run.
      timeout: Seconds that each level may take, `import` included.
    """
    report = _Report(levels=(IMPORT, *levels), timeout=timeout)
    try:
        with private_directory() as directory:
            job = {
                "request": request.to_json(),
                "levels": list(levels),
                "directory": directory,
                "timeout": timeout,
                "parent": os.getpid(),
            }
            with worker_process(job, directory, gpu=GPU in levels) as worker:
                report.listen(worker)
    except OSError as error:
        report.fail(f"the worker could not be run: {error}")
    return report.verdict()


@contextlib.contextmanager
def worker_process(
    job: dict[str, Any], directory: str, *, gpu: bool, module: str = WORKER
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a worker; at the end none of its processes is left.

    Args:
      job: What it reads from stdin, as JSON.
      directory: Where its files are; private to it.
      gpu: Whether it may use a GPU.
      module: What it runs.
    """
    job_file = Path(directory, "job.json")
    job_file.write_text(json.dumps(job), encoding="utf-8")
    scratch = Path(directory, "scratch")
    scratch.mkdir()
    with job_file.open("rb") as stdin:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=scratch,
            env=_environment(directory, scratch, gpu=gpu),
            start_new_session=True,
        )
    try:
        yield worker
    finally:
        _end(worker, directory)


def _environment(directory: str, scratch: Path, *, gpu: bool) -> dict[str, str]:
    """Returns the worker's environment: the same whatever the user has set."""
    root = str(Path(__file__).parents[2])
    # Installed packages are found anyhow, and must not come before Python's own.
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    path = [*([] if root in installed else [root]), *absolute_pythonpath()]
    return {
        **{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": str(scratch),
        "JAX_PLATFORMS": "cpu",
        "JAX_TRACEBACK_FILTERING": "off",  # The place of an error is in the frames.
        # The simulated products are small: more threads only wait for each other.
        "OPENBLAS_NUM_THREADS": "1",
        # A simulated thread that waits holds one of XLA's, of which there are as many
        # as cores: on few cores a cluster would wait for itself.
        "PJRT_NPROC": "64",
        **(_gpu_variables() if gpu else {}),
        MARK: directory,
    }


def _gpu_variables() -> dict[str, str]:
    """Returns what the level `gpu` needs, with the GPUs that the user has chosen."""
    from kgen.verify.gpu import ENVIRONMENT

    chosen = {n: os.environ[n] for n in GPU_VARIABLES if n in os.environ}
    return {**chosen, **ENVIRONMENT}


def _end(worker: subprocess.Popen[bytes], directory: str) -> None:
    """Kills the worker with all its descendants and waits for it."""
    kill_group(worker)
    _kill_strays(directory)
    for pipe in (worker.stdout, worker.stderr):
        assert pipe is not None
        pipe.close()


def _kill_strays(directory: str) -> None:
    """Kills what the worker started in sessions of their own (Linux)."""
    mark = f"{MARK}={directory}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


@dataclasses.dataclass(kw_only=True)
class _Report:
    """What is known about a worker so far.

    Attributes:
      levels: The levels that are expected, in their order.
      timeout: Seconds that each may take.
      results: Results that arrived.
      started: When the level that runs began.
      step: What it is trying.
      positions: Where it was shortly before its limit; None if it did not say.
      pending: The beginning of an event.
      errors: The end of the worker's stderr.
      jax_version: JAX of the worker.
    """

    levels: Sequence[str]
    timeout: float
    results: list[LevelResult] = dataclasses.field(default_factory=list)
    started: float = dataclasses.field(default_factory=time.monotonic)
    step: str | None = None
    positions: list[str] | None = None
    pending: bytes = b""
    errors: bytes = b""
    jax_version: str = dataclasses.field(default_factory=lambda: cache.installed("jax"))

    def listen(self, worker: subprocess.Popen[bytes]) -> None:
        """Follows the worker until it is done, dead or too slow."""
        assert worker.stdout is not None
        assert worker.stderr is not None
        with selectors.DefaultSelector() as selector:
            for pipe in (worker.stdout, worker.stderr):
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ)
            while not self.complete():
                # Looked at first: what a dead worker wrote is then all in the pipes.
                ended = has_ended(worker)
                for key, _ in selector.select(0 if ended else POLL_SECONDS):
                    if not (data := read(key.fileobj)):
                        selector.unregister(key.fileobj)
                    elif key.fileobj is worker.stderr:
                        self.errors = (self.errors + data)[-TAIL_BYTES:]
                    else:
                        self._take_safely(data)
                if self.complete():
                    return
                if ended:
                    self._take_last_words(worker.stderr)
                    during = f"at {self.step}: " if self.step else ""
                    self.fail(during + how_it_ended(worker, self.errors))
                elif time.monotonic() - self.started > self.timeout:
                    self.fail(self._too_slow())

    def _take_last_words(self, stderr: IO[bytes]) -> None:
        """Reads what is passed on for a worker that has ended (`ptxas.Printed`)."""
        end = time.monotonic() + LAST_WORDS_SECONDS
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([stderr], [], [], left)
            if not readable or not (data := read(stderr)):
                return
            self.errors = (self.errors + data)[-TAIL_BYTES:]

    def complete(self) -> bool:
        """Whether every level has its result."""
        return len(self.results) >= len(self.levels)

    def _take_safely(self, data: bytes) -> None:
        try:
            self._take(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.fail(f"the worker's report cannot be read: {error}")

    def _take(self, data: bytes) -> None:
        """Reads events from a piece of the worker's stdout."""
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            match event.pop("event"):
                case "level":
                    self.started = time.monotonic()
                    self.step = self.positions = None
                case "step":
                    self.step = event["text"]
                case "positions":
                    self.positions = event["lines"]
                case "jax":
                    self.jax_version = event["version"]
                case "result":
                    notes = tuple(event.pop("notes"))
                    self.results.append(LevelResult(**event, notes=notes))

    def _too_slow(self) -> str:
        where = f" at {self.step}" if self.step else ""
        text = f"no result within {self.timeout:g} s{where}"
        if self.positions:
            text += f"; it was at {', '.join(self.positions)}"
        elif self.positions is not None:
            text += "; it was at no line of the module"
        return text

    def fail(self, detail: str) -> None:
        """Fails the level that runs, if any; what comes after it is not run."""
        if self.complete():
            return
        level, *rest = self.levels[len(self.results) :]
        seconds = round(time.monotonic() - self.started, 3)
        self.results.append(
            LevelResult(level=level, status=FAILED, detail=detail, seconds=seconds)
        )
        self.results += [
            LevelResult(level=other, status=NOT_RUN, detail=f"{level} failed")
            for other in rest
        ]

    def verdict(self) -> Verdict:
        """Returns the verdict."""
        return Verdict(levels=tuple(self.results), jax_version=self.jax_version)
