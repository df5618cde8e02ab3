"""Finds deadlocks at once: every thread of the kernel waits, and nobody is left to arrive.

JAX's interpreter runs each warpgroup in a thread of Python, and its barriers wait in a
condition variable. Here that variable counts who waits. A waiting thread counts until
it is notified; so once as many wait as there are threads, no barrier can ever be
arrived at again. That is seen by the last thread that begins to wait or that ends,
under one lock: it does not depend on time, and a slow machine raises no false alarm.
"""

import functools
import importlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgen.verify.simulate import operations, tracing
from kgen.verify.simulate.operations import Position
from kgen.verify.simulate.patches import PATCHES
from kgen.verify.simulate.records import RECORDS
from kgen.verify.simulate.waits import KEY, Wait, deadlock_hint, describe_wait
from kgen.verify.upstream import UnavailableError

_THREAD_MAP = "jax._src.pallas.mosaic.interpret.thread_map"
_INSTALLED = "_kgen_deadlocks"


class DeadlockError(Exception):
    """Every thread of the kernel waits at a barrier."""


class _Watch:
    """Counts the threads of the kernel that runs.

    The thread that runs the whole computation is one of them: it runs the kernel
    itself, or waits for the threads that do.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Forgets the kernel that ran before."""
        self.threads = 1
        self.joining = 0
        self.waiting: dict[int, Wait] = {}
        self.ended: list[Position] = []
        self.deadlock: tuple[Wait, ...] = ()

    def check(self) -> None:
        """Ends the kernel if nobody is left to run; under the lock."""
        if not self.waiting or self.deadlock:
            return
        shared = next(iter(self.waiting.values())).barrier.shared_memory
        # Each further device runs the computation in a thread of its own.
        threads = self.threads + shared.num_devices - 1
        if len(self.waiting) + self.joining == threads:
            self.deadlock = tuple(self.waiting.values())
            # The lock of a barrier is held here, and ending the kernel takes others.
            threading.Thread(target=_abort, args=(self.deadlock,), daemon=True).start()

    def listen(self, position: Position, _: Any) -> None:
        """Notes the threads that end."""
        if position.operation.callback == "kernel_thread_finished":
            with self.lock:
                self.ended.append(position)
        elif position.operation.callback == "cluster_finished":
            with self.lock:
                self.ended.clear()


_watch = _Watch()


class _Condition(threading.Condition):
    """A barrier's condition variable that tells the watch who waits."""

    def __init__(self, barrier: Any) -> None:
        super().__init__()
        self._barrier = barrier
        self._waiting: set[int] = set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is notified."""
        own, position = threading.get_ident(), operations.here()
        assert position is not None
        with _watch.lock:
            self._waiting.add(own)
            _watch.waiting[own] = Wait(barrier=self._barrier, position=position)
            _watch.check()
        return super().wait(timeout)

    def notify_all(self) -> None:
        """Wakes all who wait: from here on they do not."""
        with _watch.lock:
            for thread in self._waiting:
                _watch.waiting.pop(thread, None)
            self._waiting.clear()
        super().notify_all()


def _abort(waits: tuple[Wait, ...]) -> None:
    """Ends the kernel: wakes all its threads with an error."""
    shared = waits[0].barrier.shared_memory
    shared.set_failed(DeadlockError("deadlock"), None, top_level=False)
    for wait in waits:
        wait.barrier.abort()  # JAX forgets the named barriers.


def begin() -> None:
    """Forgets what was seen; before a kernel is run."""
    with _watch.lock:
        _watch.begin()


def describe_deadlock(module: Path) -> str | None:
    """Says where each thread waits in a deadlock; None if there was none."""
    with _watch.lock:
        waits, ended = _watch.deadlock, list(_watch.ended)
    if not waits:
        return None
    ordered = sorted(waits, key=lambda wait: wait.who)
    lines = [
        f"  {wait.who}: {describe_wait(wait, RECORDS, module)}" for wait in ordered
    ]
    lines += [f"  {position.who()} has ended" for position in ended]
    hint = deadlock_hint(ordered, RECORDS, ended=bool(ended))
    return "\n".join(
        ["deadlock: every thread waits at a barrier for good:", *lines, f"hint: {hint}"]
    )


def positions(module: Path) -> list[str]:
    """Says where each thread of the kernel is, or was last."""
    with _watch.lock:
        waits = {wait.who: wait for wait in _watch.waiting.values()}
    lines = []
    for position in operations.last_positions():
        who = position.who()
        where = position.operation.describe(module)
        if who in waits:
            where = describe_wait(waits[who], RECORDS, module)
        lines.append(f"{where} ({who})")
    return lines


def install() -> None:
    """Watches the barriers and threads of the imported JAX; once per process.

    Raises:
      UnavailableError: a piece of JAX is not where it was in the versions kgen knows.
    """
    tracing.install()
    try:
        memory: Any = importlib.import_module(f"{operations.INTERPRET}.shared_memory")
        threads: Any = importlib.import_module(_THREAD_MAP)
        if hasattr(memory, _INSTALLED):
            return
        initialise, abort = memory.Barrier.__init__, memory.Barrier.abort
        allocate = memory.GPUSharedMemory.allocate_barrier
        clustered = memory.GPUSharedMemory.allocate_cluster_barrier
        _ = memory.GPUSharedMemory.set_failed, memory.Barrier.wait, abort
        start, run = threads._thread_map_callback, threads._run_jaxpr
    except (ImportError, AttributeError) as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    setattr(memory, _INSTALLED, True)
    operations.listen(_watch.listen)
    shared = memory.GPUSharedMemory
    PATCHES.replace(memory.Barrier, "__init__", _with_condition(initialise))
    PATCHES.replace(shared, "allocate_barrier", _with_key(allocate))
    PATCHES.replace(shared, "allocate_cluster_barrier", _with_key(clustered))
    PATCHES.replace(threads, "_thread_map_callback", _counting(start))
    PATCHES.replace(threads, "_run_jaxpr", _ending(run))


def _with_condition(initialise: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(initialise)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        self.cv = _Condition(self)

    return init


def _with_key(allocate: Callable[..., None]) -> Callable[..., None]:
    """Lets a barrier know its key, by which its name is found."""

    @functools.wraps(allocate)
    def allocate_barrier(self: Any, key: Any, *args: Any, **kwargs: Any) -> None:
        allocate(self, key, *args, **kwargs)
        barrier = self.mem[key]
        for each in getattr(barrier, "barriers", (barrier,)):
            setattr(each, KEY, key)

    return allocate_barrier


def _counting(start: Callable[..., Any]) -> Callable[..., Any]:
    """Counts the threads that a thread starts and then waits for."""

    @functools.wraps(start)
    def thread_map_callback(
        jaxpr: Any, token: Any, device: Any, count: Any, *args: Any, **kwargs: Any
    ) -> Any:
        with _watch.lock:
            _watch.threads += int(count)
            _watch.joining += 1
        try:
            return start(jaxpr, token, device, count, *args, **kwargs)
        finally:
            with _watch.lock:
                _watch.joining -= 1

    return thread_map_callback


def _ending(run: Callable[..., None]) -> Callable[..., None]:
    """Counts the threads that end."""

    @functools.wraps(run)
    def run_jaxpr(*args: Any, **kwargs: Any) -> None:
        try:
            run(*args, **kwargs)
        finally:
            with _watch.lock:
                _watch.threads -= 1
                _watch.check()

    return run_jaxpr
