"""Processes and signals: how they end, and what must not be cut short."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any

PR_SET_PDEATHSIG = 1
# What people and other programs end a process with.
ENDING = (signal.SIGINT, signal.SIGTERM)
TAIL_BYTES = 16_384
TAIL_LINES = 5


def die_with_parent(parent: int) -> None:
    """Has the kernel end this process when its parent ends, however that is (Linux).

    Args:
      parent: The process that started this one; it may be gone already.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Lets SIGINT and SIGTERM wait until the block ends."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread gets signals.
        return
    pending: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        pending.append(number)

    handlers = [signal.signal(number, hold) for number in ENDING]
    try:
        yield
    finally:
        for number, handler in zip(ENDING, handlers, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for held in dict.fromkeys(pending):
            signal.raise_signal(held)


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Lets SIGINT and SIGTERM wait until the block ends, in forked processes too.

    One that reaches a process forked in the block stays pending there until the process
    unblocks it; a handler would swallow it. What is started in the block, threads too,
    begins with these signals blocked.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def absolute_pythonpath() -> list[str]:
    """Returns the directories of the user's PYTHONPATH, whatever the current one is."""
    inherited = os.environ.get("PYTHONPATH", "")
    return [str(Path(p).absolute()) for p in inherited.split(os.pathsep) if p]


def kill_group(worker: subprocess.Popen[bytes]) -> None:
    """Kills a worker that leads its group with all of that, and waits for it."""
    # Not waited for yet, so that its id and its group's are still its own.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def read(pipe: IO[bytes] | Any) -> bytes:
    """Reads what is there; nothing at the end and, without blocking, in between."""
    try:
        return os.read(pipe.fileno(), 65_536)
    except BlockingIOError:
        return b""


def has_ended(worker: subprocess.Popen[bytes]) -> bool:
    """Whether the worker has ended; it is not waited for yet."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, worker.pid, options) is not None


def how_it_ended(worker: subprocess.Popen[bytes], errors: bytes) -> str:
    """Says by what the worker ended, with the last lines of its stderr."""
    status = os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert status is not None
    if status.si_code == os.CLD_EXITED:
        text = f"the worker exited with status {status.si_status} without a result"
    else:
        name = signal.Signals(status.si_status).name
        text = f"the worker was ended by {name}"
        if name == "SIGKILL":
            text += " (out of memory?)"
    lines = errors.decode(errors="replace").strip().splitlines()
    return "\n".join([text, *(f"  {line}" for line in lines[-TAIL_LINES:])])
