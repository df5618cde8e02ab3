"""Which operation of the kernel runs, in which thread, from which line.

JAX's GPU interpreter makes a callback of every operation that touches memory or a
barrier. All of them pass one function, and that is watched here:

- When a kernel is traced, a callback is given its `Operation` (`tracing.py`): what it
  does and where it came from. Operations within JAX's own pipelines have no line of the
  user's; theirs is that of the loop or scope around them.
- When the kernel runs, the thread that makes a callback is known to be at it.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kgen.verify.explain import describe_line

INTERPRET = "jax._src.pallas.mosaic_gpu.interpret"
PIPELINE_FILE = "mosaic_gpu/pipeline.py"
ALLOCATIONS = (
    "_allocate_buffer",
    "_allocate_buffer_for_all_threads",
    "_allocate_barriers",
    "_allocate_cluster_barriers",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation of the kernel.

    Attributes:
      callback: Name of the interpreter's function that does it.
      primitive: JAX's name for it.
      params: Of the primitive.
      traces: JAX's tracebacks of the operation and of what is around it.
      label: What the kernel calls that which it allocates.
    """

    callback: str
    primitive: str
    params: dict[str, Any]
    traces: tuple[Any, ...]
    label: str = ""

    @property
    def in_pipeline(self) -> bool:
        """Whether one of JAX's pipelines makes it, and not the user's own code."""
        return bool(self.traces) and _within_pipeline(self.traces[0])

    def place(self, module: Path) -> tuple[str, int] | None:
        """Returns file and line of the user's code that it came from."""
        places = (_user_place(trace, module) for trace in self.traces)
        return next((place for place in places if place), None)

    def own_place(self, module: Path) -> tuple[str, int] | None:
        """Returns its place as `place` does, but not that of what is around it."""
        return _user_place(self.traces[0], module) if self.traces else None

    def describe(self, module: Path) -> str:
        """Returns `file.py:line: text`, or says that it is within JAX."""
        place = self.place(module)
        return describe_line(Path(place[0]), place[1]) if place else "within JAX"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Position:
    """A thread at an operation.

    Attributes:
      operation: The operation.
      thread: JAX's warpgroup or warp; None outside the kernel.
      location: Where it is in the grid; None outside the kernel.
    """

    operation: Operation
    thread: Any
    location: Any

    @property
    def cta(self) -> tuple[int, ...]:
        """Coordinates in the grid of the cluster that the thread belongs to."""
        return self.location.cluster_coords if self.location is not None else ()

    def who(self) -> str:
        """Returns `warpgroup 1 of CTA (0, 2)`."""
        thread, location = self.thread, self.location
        if thread is None:
            return "the host"
        text = f"warpgroup {thread.warpgroup_id}"
        if (warp := getattr(thread, "warp_id", None)) is not None:
            text = f"warp {warp} of {text}"
        if location is None:
            return f"{text} of block {thread.block_id} of the cluster"
        coordinates = ", ".join(map(str, (*self.cta, *location.block_coords)))
        return f"{text} of CTA ({coordinates})"


class _Here(threading.local):
    """What the running thread is at.

    Attributes:
      position: The callback that it makes.
    """

    def __init__(self) -> None:
        self.position: Position | None = None


Listener = Callable[[Position, Any], None]

_here = _Here()
_last: dict[Any, Position] = {}
_listeners: list[Listener] = []
_failed: list[tuple[Position, Exception]] = []


def here() -> Position | None:
    """Returns the operation that the running thread is at."""
    return _here.position


def last_positions() -> list[Position]:
    """Returns where every thread of the kernel was last, the ended ones left out."""
    ordered = sorted(_last.items(), key=lambda item: repr(item[0]))
    return [position for _, position in ordered]


def first_failure() -> tuple[Position, Exception] | None:
    """Returns the operation that failed first since `forget`, with its error."""
    return _failed[0] if _failed else None


def forget() -> None:
    """Forgets positions and failures of the kernel that ran before."""
    _last.clear()
    _failed.clear()


def listen(listener: Listener) -> None:
    """Calls `listener` with position and result after each operation."""
    if listener not in _listeners:
        _listeners.append(listener)


@contextlib.contextmanager
def at(position: Position) -> Iterator[None]:
    """Has the running thread be at an operation."""
    before, _here.position = _here.position, position
    if position.location is not None:
        _last[position.thread] = position
    try:
        yield
    except Exception as error:
        _failed.append((position, error))
        raise
    finally:
        _here.position = before
        if position.operation.callback == "kernel_thread_finished":
            _last.pop(position.thread, None)


def tell(position: Position, result: Any) -> None:
    """Tells those who listen that an operation is done."""
    for listener in _listeners:
        listener(position, result)


def _user_place(trace: Any, module: Path) -> tuple[str, int] | None:
    """Returns the innermost line of the module, or else of any file of the user's."""
    from jax._src import source_info_util

    if trace is None:
        return None
    frames = [
        (frame.file_name, frame.start_line)
        for frame in source_info_util.user_frames(trace)
    ]
    own = [frame for frame in frames if frame[0] == str(module)]
    return next(iter(own or frames), None)


def _within_pipeline(trace: Any) -> bool:
    """Whether a traceback comes to JAX's pipelines before it comes to user code."""
    if trace is None:
        return False
    user = _user_place(trace, Path())
    for frame in trace.frames:
        if frame.file_name.endswith(PIPELINE_FILE):
            return True
        if user is not None and frame.file_name == user[0]:
            return False
    return False
