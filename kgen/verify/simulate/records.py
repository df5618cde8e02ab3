"""Finds data races, as records: who accessed what, when, and from which line.

JAX's race detector tells a race as text and knows of an access no more than a thread,
a range and a line. Here its two checks keep a record of each access instead, and find
the same races: two accesses of one place of which one is a write and which no vector
clock orders. One kind is added: CTAs of a grid that are in no common cluster are
ordered by nothing, though the interpreter runs them one after the other.
"""

import collections
import dataclasses
import importlib
import itertools
import threading
from typing import Any

import numpy as np

from kgen.verify.simulate import operations, tracing
from kgen.verify.simulate.accesses import (
    AGENTS,
    LOAD,
    READ,
    STORE,
    THREAD,
    WRITE,
    Access,
    Allocation,
    Buffer,
    Race,
    Range,
    conflict,
    covers,
    is_whole,
    race,
)
from kgen.verify.simulate.operations import Position
from kgen.verify.simulate.patches import PATCHES
from kgen.verify.upstream import UnavailableError

_INSTALLED = "_kgen_records"


class Records:
    """What is known of the kernel that runs.

    Attributes:
      races: The races found, in the order of their second accesses.
      buffers: By JAX's key, as soon as they are accessed.
    """

    def __init__(self) -> None:
        self.races: list[Race] = []
        self.buffers: dict[Any, Buffer] = {}
        self._lock = threading.Lock()
        self._accesses: dict[Any, list[Access]] = collections.defaultdict(list)
        self._allocated: dict[tuple[int, ...], Allocation] = {}
        self._loading: dict[int, str] = {}

    def begin(self) -> None:
        """Forgets everything; before a kernel is run."""
        with self._lock:
            self.races = []
            self._clear()

    def _clear(self) -> None:
        for table in (self.buffers, self._accesses, self._allocated):
            table.clear()

    def listen(self, position: Position, result: Any) -> None:
        """Notes what is allocated."""
        operation = position.operation
        with self._lock:
            if operation.callback == "_initialize_shared_memory":
                self._clear()
            elif operation.callback in operations.ALLOCATIONS:
                keys = _keys(result[1])
                for index, key in enumerate(keys):
                    allocation = Allocation(
                        operation=operation, index=index, count=len(keys)
                    )
                    self._allocated.setdefault(key, allocation)

    def allocation(self, key: Any) -> Allocation | None:
        """Returns what allocated a buffer or barrier."""
        return self._allocated.get(tuple(key))

    def add(self, key: Any, shape: tuple[int, ...], dtype: str, space: str) -> None:
        """Makes a buffer known."""
        allocation = self.allocation(key)
        name = allocation.operation.label if allocation else ""
        with self._lock:
            self.buffers.setdefault(
                key, Buffer(name=name, shape=shape, dtype=dtype, space=space)
            )

    def last_store(self, thread: Any) -> tuple[Buffer, Access] | None:
        """Returns what a TMA store of a thread read last."""
        with self._lock:
            found = [
                (self.buffers[key], access)
                for key, accesses in self._accesses.items()
                for access in accesses
                if (access.agent, access.kind) == (STORE, READ)
                and access.position.thread == thread
            ]
        return found[-1] if found else None

    def check(
        self,
        thread: Any,
        clock: Any,
        key: Any,
        rnge: Range,
        *,
        kind: str,
        group: tuple[Any, ...] = (),
    ) -> bool:
        """Records an access of the operation that runs; says whether it races.

        Args:
          thread: On whose behalf it is made.
          clock: Vector clock of the access.
          key: The buffer's; it is among `buffers`.
          rnge: What of the buffer is accessed.
          kind: `read` or `write`.
          group: Keys of the buffers that share its memory.
        """
        position = operations.here()
        assert position is not None
        if position.thread != thread:  # A CTA may load for its peers.
            position = dataclasses.replace(position, thread=thread, location=None)
        with self._lock:
            buffer = self.buffers[key]
            access = self._access(kind, clock, buffer, rnge, position)
            earlier = self._accesses[key]
            races = [old for old in earlier if race(old, access, buffer.space)]
            aliased = itertools.chain(*(self._accesses.get(k, ()) for k in group))
            races += [old for old in aliased if conflict(old, access)]
            if kind == WRITE:
                # Whatever comes after this write comes after those, too.
                earlier[:] = [old for old in earlier if not covers(access, old)]
            earlier.append(access)
            self.races += [
                Race(buffer=buffer, first=old, second=access) for old in races
            ]
        return bool(races)

    def _access(
        self, kind: str, clock: Any, buffer: Buffer, rnge: Range, position: Position
    ) -> Access:
        agent = AGENTS.get(position.operation.primitive, THREAD)
        slot = rnge[0] if len(rnge) > 1 and isinstance(rnge[0], int) else None
        if agent == LOAD and kind == READ:
            self._loading[threading.get_ident()] = buffer.name
        elif agent == LOAD:
            buffer.of_pipeline = position.operation.in_pipeline
            buffer.loaded_from = self._loading.get(threading.get_ident(), "")
            if is_whole(rnge[slot is not None :], buffer.shape[slot is not None :]):
                buffer.steps[slot] = buffer.loads
                buffer.loads += 1
        return Access(
            kind=kind,
            agent=agent,
            range=rnge,
            slot=slot,
            step=buffer.steps.get(slot),
            position=position,
            clock=clock,
        )


RECORDS = Records()


def install() -> None:
    """Makes the imported JAX's race detector keep records; once per process.

    Raises:
      UnavailableError: a piece of JAX is not where it was in the versions kgen knows.
    """
    tracing.install()
    try:
        detection: Any = importlib.import_module(
            f"{operations.INTERPRET}.race_detection_state"
        )
        callbacks: Any = importlib.import_module(
            f"{operations.INTERPRET}.gpu_callbacks"
        )
        memory: Any = importlib.import_module(f"{operations.INTERPRET}.shared_memory")
        state = detection.GPURaceDetectionState
        if hasattr(state, _INSTALLED):
            return
        _ = state.check_read, state.check_write, state._check_ref_union
        _ = callbacks._get_shared_memory, memory.GPUSharedMemory.buffer_shape_and_dtype
        spaces = {
            index: str(space.name)
            for space, index in memory.IDX_BY_GPU_MEMORY_SPACE.items()
        }
    except (ImportError, AttributeError) as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    setattr(state, _INSTALLED, True)
    operations.listen(RECORDS.listen)
    for kind in (READ, WRITE):
        PATCHES.replace(state, f"check_{kind}", _check(kind, callbacks, spaces))


def _check(kind: str, callbacks: Any, spaces: dict[int, str]) -> Any:
    """Returns the race detector's check of one kind of access."""

    def check(
        self: Any, thread: Any, clock: Any, key: Any, rnge: Any, **more: Any
    ) -> None:
        if key not in RECORDS.buffers:
            shape, dtype = callbacks._get_shared_memory().buffer_shape_and_dtype(key)
            RECORDS.add(key, tuple(shape), str(dtype), spaces[key.memory_space_id])
        union, own = self.ref_union_members.get(key, (None, None))
        group = [
            other
            for other, (other_union, alias) in list(self.ref_union_members.items())
            if union is not None and other_union == union and alias != own
        ]
        if RECORDS.check(thread, clock, key, rnge.range, kind=kind, group=tuple(group)):
            self.races_found = True
        else:
            # No race: it objects to a read of what another alias wrote.
            written = kind == WRITE
            self._check_ref_union(thread, clock, key, written, more.get("source_info"))

    return check


def _keys(array: Any) -> list[tuple[int, ...]]:
    """Returns the keys in an array of them."""
    rows = np.asarray(array)
    return [tuple(map(int, row)) for row in rows.reshape(-1, rows.shape[-1])]
