"""Processes and signals: how they end, and what must not be cut short."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

PR_SET_PDEATHSIG = 1
# What people and other programs end a process with.
ENDING = (signal.SIGINT, signal.SIGTERM)


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
