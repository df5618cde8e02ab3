"""The worker process: imports one module and runs the levels on it.

Reads a job as JSON from stdin and writes one JSON object per event to what was its
stdout. It may be killed, hang or be aborted by JAX at any time; its parent
(`kgen.verify.process`) makes something of each of these.

    {"event": "level", "level": "lower"}           a level begins
    {"event": "step", "text": "m=128, ..."}        what the level tries now
    {"event": "positions", "lines": [...]}         where it is shortly before its limit
    {"event": "result", "level": ..., "status": ..., "detail": ..., "seconds": ...,
     "notes": [...]}
    {"event": "jax", "version": "0.12.0"}
"""

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, BinaryIO

from kgen.arch import ARCHS
from kgen.processes import die_with_parent
from kgen.verify import layout, upstream
from kgen.verify.explain import (
    LevelError,
    NotModelledError,
    describe_line,
    explain,
)
from kgen.verify.request import (
    FAILED,
    IMPORT,
    NOT_RUN,
    PASSED,
    SIMULATE,
    Request,
    is_empty,
)


class Events:
    """Sends events to the parent."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def send(self, event: str, **fields: Any) -> None:
        """Sends one event."""
        line = json.dumps({"event": event, **fields}).encode() + b"\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()


class Worker:
    """Runs the levels of one request, up to the first that fails."""

    def __init__(self, job: dict[str, Any], events: Events) -> None:
        self.request = Request.from_json(job["request"])
        self.levels: list[str] = job["levels"]
        self.timeout: float = job["timeout"]
        self.directory = Path(job["directory"])
        self.path = layout.own_path(self.request, self.directory)
        self.events = events
        self.function: Callable[..., Any] | None = None

    def run(self) -> None:
        """Runs `import` and then the levels that were asked for."""
        failed = None
        for level in (IMPORT, *self.levels):
            reason = f"{failed} failed" if failed else self._reason_not_to_run(level)
            if reason:
                self._result(level, NOT_RUN, reason, 0.0)
            elif not self._run_level(level):
                failed = level

    def _reason_not_to_run(self, level: str) -> str | None:
        cases = self.request.cases
        if level != IMPORT and not cases:
            return "no sizes are given"
        with_kernel = [case for case in cases if not is_empty(case)]
        if level != IMPORT and not with_kernel:
            return "every size is a product of nothing, of which no kernel runs"
        if level == SIMULATE and not any(case.simulate for case in with_kernel):
            return "no size is small enough"
        return None

    def _run_level(self, level: str) -> bool:
        start = time.perf_counter()
        self.events.send("level", level=level)
        detail, notes = "", tuple[str, ...]()
        try:
            with self._watch():
                notes = self._body(level)
            status = PASSED
        except NotModelledError as error:
            status, detail = NOT_RUN, str(error)
        except LevelError as error:
            status, detail = FAILED, str(error)
        except BaseException as error:  # A module may raise SystemExit.
            status, detail = FAILED, explain(error, self.path)
        self._result(level, status, detail, time.perf_counter() - start, notes)
        return status != FAILED

    def _body(self, level: str) -> tuple[str, ...]:
        """Runs a level and returns its notes."""
        if level == IMPORT:
            self.function = self._import()
            return ()
        run = importlib.import_module(f"kgen.verify.{level}").run
        return tuple(run(self.function, self.request, self.path, self._step) or ())

    def _import(self) -> Callable[..., Any]:
        """Imports the module and returns its public function."""
        name = self.request.name
        if name in sys.modules or name in sys.stdlib_module_names:
            raise LevelError(f"the name {name} belongs to another module")
        if self.request.path:
            # What lies beside it is found, as when Python runs the file.
            sys.path.insert(0, str(self.path.parent))
        else:
            layout.write(self.request, self.directory)
        module = load(layout.full_name(self.request), self.path)
        # What is imported by now lives as long as the process.
        gc.freeze()
        if "jax" in sys.modules:
            self.events.send("jax", version=str(sys.modules["jax"].__version__))
            if self.request.arch in ARCHS:
                upstream.pose_as_gpu(ARCHS[self.request.arch])
        for needed in self.request.functions:
            if not callable(getattr(module, needed, None)):
                raise LevelError(f"the module has no function {needed}")
        function: Callable[..., Any] = getattr(module, self.request.function)
        return function

    def _step(self, text: str) -> None:
        self.events.send("step", text=text)

    def _result(
        self,
        level: str,
        status: str,
        detail: str,
        seconds: float,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.events.send(
            "result",
            level=level,
            status=status,
            detail=detail,
            seconds=round(seconds, 3),
            notes=notes,
        )

    @contextlib.contextmanager
    def _watch(self) -> Iterator[None]:
        """Tells the parent where the module is shortly before the level's limit."""
        timer = threading.Timer(
            max(self.timeout - 1.0, 0.8 * self.timeout), self._tell_positions
        )
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _tell_positions(self) -> None:
        # While a kernel is simulated, no frame of the module is on any stack.
        simulated = sys.modules.get("kgen.verify.simulate.diagnosis")
        lines = simulated.positions(self.path) if simulated else []
        self.events.send("positions", lines=lines or self._positions_in_module())

    def _positions_in_module(self) -> list[str]:
        numbers = {
            line
            for thread, frame in sys._current_frames().items()
            if thread != threading.get_ident()
            and (line := _module_line(frame, self.path))
        }
        return [describe_line(self.path, line) for line in sorted(numbers)]


class _AsItIs(importlib.machinery.SourceFileLoader):
    """Compiles a file's text: bytecode may be of another of the same second and size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def load(name: str, path: Path) -> ModuleType:
    """Imports a file under a name."""
    loader = _AsItIs(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _module_line(frame: FrameType | None, path: Path) -> int | None:
    """Returns the innermost line of the module on a stack."""
    while frame is not None:
        if frame.f_code.co_filename == str(path):
            return frame.f_lineno
        frame = frame.f_back
    return None


def take_stdout() -> Events:
    """Keeps stdout for events; what anything else prints there goes to stderr."""
    events = Events(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    return events


def read_job() -> dict[str, Any]:
    """Reads the job from stdin."""
    job: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    # A module that reads stdin finds it empty.
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return job


def main() -> None:
    """Runs the job on stdin."""
    events = take_stdout()
    job = read_job()
    die_with_parent(job["parent"])
    Worker(job, events).run()
    # JAX's threads and the module's own must not hold up the end.
    os._exit(0)


if __name__ == "__main__":
    main()
