"""Verifies many modules, each in a child of one process that has imported JAX already.

A worker of `kgen.verify` spends a second on importing JAX. Here one process imports it
and nothing else happens there; for each module it forks a child, which does exactly what
the worker does. The parent of them all asks through `Nursery.verify`.

This file is also the program of that process. It reads a job per line from stdin and
writes the results of its levels as a line of JSON to stdout.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgen.verify import process
from kgen.verify.request import FAILED, IMPORT, LevelResult, Request, Verdict
from kgen.verify.worker import Events, Worker

PRELOADED = (
    "jax.experimental.pallas.mosaic_gpu",
    "kgen.verify.static",
    "kgen.verify.lower",
    "kgen.verify.simulate",
)


class Nursery:
    """The parent's end.

    Args:
      levels: The levels that every module goes through.
      timeout: Seconds that each level may take.
    """

    def __init__(self, levels: Sequence[str], timeout: float) -> None:
        self._levels, self._timeout = list(levels), timeout
        self._directory = tempfile.TemporaryDirectory(prefix="kgen-mutants-")
        directory = Path(self._directory.name)
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=directory,
            env=process._environment(str(directory), directory, gpu=False),
        )

    def verify(
        self,
        request: Request,
        *,
        levels: Sequence[str] = (),
        timeout: float | None = None,
        x64: bool = True,
    ) -> Verdict:
        """Returns what `kgen.verify.verify` says without its cache.

        Args:
          request: The module and what it is verified for.
          levels: The levels that it goes through, if not those that every module does.
          timeout: Seconds that each of them may take, if not as long as for all.
          x64: Whether to simulate in x64 mode as well, as `kgen verify` does.
        """
        job = {
            "request": request.to_json(),
            "levels": list(levels or self._levels),
            "directory": self._directory.name,
            "timeout": timeout or self._timeout,
            "x64": x64,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return Verdict.from_json(json.dumps(answer))

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._directory.cleanup()


def _run(job: dict[str, Any]) -> list[LevelResult]:
    """Verifies one module in a child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        if not job["x64"]:
            sys.modules["kgen.verify.simulate"].X64_MODES = (False,)  # type: ignore[attr-defined]
        Worker(job, Events(os.fdopen(writing, "wb"))).run()
        os._exit(0)  # JAX's threads must not hold up the end.
    os.close(writing)
    try:
        return _listen(reading, [IMPORT, *job["levels"]], job["timeout"])
    finally:
        os.close(reading)
        # Not waited for yet, so that its id is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _listen(pipe: int, levels: list[str], timeout: float) -> list[LevelResult]:
    """Returns the results of a child until it is done, dead or too slow."""
    results: list[LevelResult] = []
    pending, started = b"", time.monotonic()
    while len(results) < len(levels):
        left = started + timeout - time.monotonic()
        ready, _, _ = select.select([pipe], [], [], max(left, 0))
        data = os.read(pipe, 65_536) if ready else b""
        if not data:
            detail = "no result" + ("" if ready else f" within {timeout:g} s")
            level = levels[len(results)]
            return [*results, LevelResult(level=level, status=FAILED, detail=detail)]
        *lines, pending = (pending + data).split(b"\n")
        for event in map(json.loads, lines):
            match event.pop("event"):
                case "level":
                    started = time.monotonic()
                case "result":
                    notes = tuple(event.pop("notes", ()))
                    results.append(LevelResult(**event, notes=notes))
    return results


def main() -> None:
    """Answers jobs until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # No child looks through what they all share.
    version = str(sys.modules["jax"].__version__)
    for line in sys.stdin:
        verdict = Verdict(levels=tuple(_run(json.loads(line))), jax_version=version)
        print(verdict.to_json(), file=answers, flush=True)


if __name__ == "__main__":
    main()
