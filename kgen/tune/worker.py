"""The worker process of a tuner: compiles candidates and measures them.

Reads JSON from stdin, a line for the setup and one for each candidate, and writes one
object per event to what was its stdout. It may hang, be killed or be aborted by JAX at
any time; its parent (`kgen.tune.pool`) makes a result of each of these.

    {"event": "ready", "machine": {...}}        it waits for a candidate
    {"event": "refused", "text": "no GPU"}      nothing can be measured here
    {"event": "phase", "name": "prepare"}       it compiles; then "wait" for the device
                                                and "measure"
    {"event": "done", "outcome": "measured", "us": [...], "peer_us": [...],
     "detail": ""}
"""

import contextlib
import fcntl
import gc
import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from kgen.errors import KgenError, UsageError
from kgen.processes import die_with_parent
from kgen.tune.meter import Meter, WrongResultError
from kgen.tune.records import MEASURED, RAISE, WRONG
from kgen.verify.request import Request

REFERENCE = "reference_module"
DETAIL_CHARACTERS = 600


class Worker:
    """Measures one candidate after the other."""

    def __init__(self, setup: dict[str, Any], events: BinaryIO) -> None:
        self._events = events
        self._directory = Path(setup["directory"])
        self._lock = os.open(setup["lock"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        module, _, name = setup["meter"].partition(":")
        self._request = Request.from_json(setup["request"])
        make: type[Meter] = getattr(importlib.import_module(module), name)
        self._meter = make(self._request)

    def run(self, tasks: BinaryIO) -> None:
        """Sets up and works until there are no more tasks, or the device is unusable."""
        try:
            machine = self._meter.connect()
            reference = self._reference()
            with self._device():
                self._meter.setup(reference)
            self._meter.compute()
        except KgenError as error:
            self._send("refused", text=str(error))
            return
        self._send("ready", machine=machine)
        for line in tasks:
            if not self._work(json.loads(line)):
                return

    def _work(self, task: dict[str, Any]) -> bool:
        """Measures one candidate; returns whether the process is still of use."""
        usable = True
        times: dict[str, Any] = {}
        outcome, detail = MEASURED, ""
        try:
            self._send("phase", name="prepare")
            module = self._import(task["name"], task["source"])
            prepared = self._meter.prepare(getattr(module, self._request.function))
            self._send("phase", name="wait")
            # What fails on the device may leave it in a state that fails the next, too.
            usable = False
            with self._device():
                self._send("phase", name="measure")
                found = self._meter.measure(prepared, task["rounds"])
            usable = True
            times = {"us": found.us, "peer_us": found.peer_us}
        except KgenError as error:
            self._send("refused", text=str(error))
            return False
        except WrongResultError as error:
            outcome, detail, usable = WRONG, str(error), True
        except BaseException as error:  # A module may raise SystemExit.
            outcome, detail = RAISE, describe(error)
        self._forget(task)
        self._send("done", outcome=outcome, detail=detail, usable=usable, **times)
        return usable

    @contextlib.contextmanager
    def _device(self) -> Iterator[None]:
        """Lets no other worker use the device; a process that ends gives it back."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _reference(self) -> Any:
        """Returns what tells what is right, if that is not known without it."""
        if not self._request.source:
            return None
        try:
            return self._import(REFERENCE, self._request.source).reference
        except Exception as error:
            raise UsageError(
                f"no reference to compare with: {describe(error)}"
            ) from None

    def _import(self, name: str, source: str) -> ModuleType:
        path = self._directory / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _forget(self, task: dict[str, Any]) -> None:
        """Drops what a candidate left: hundreds of executables fill the memory."""
        (self._directory / f"{task['name']}.py").unlink(missing_ok=True)
        if "jax" in sys.modules:
            jax: Any = sys.modules["jax"]
            jax.clear_caches()
        gc.collect()

    def _send(self, event: str, **fields: Any) -> None:
        self._events.write(json.dumps({"event": event, **fields}).encode() + b"\n")
        self._events.flush()


def describe(error: BaseException) -> str:
    """Returns an exception on a few lines: what it is, and where in the candidate."""
    text = f"{type(error).__name__}: {error}"[:DETAIL_CHARACTERS]
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).name.startswith("candidate_")]
    return f"{text}\n  at line {own[-1].lineno}: {own[-1].line}" if own else text


def main() -> None:
    """Runs a worker on what stdin says."""
    tasks = os.fdopen(os.dup(0), "rb")
    # What a kernel or a compiler prints must not be taken for an event.
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    setup = json.loads(tasks.readline())
    die_with_parent(setup["parent"])
    Worker(setup, events).run(tasks)
    events.flush()
    # A device that is in a bad state may hang whoever leaves in an orderly way.
    os._exit(0)


if __name__ == "__main__":
    main()
