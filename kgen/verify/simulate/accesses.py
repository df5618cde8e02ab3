"""Accesses to memory, and when two of them race."""

import dataclasses
from typing import Any

from kgen.verify.simulate.operations import Operation, Position

READ, WRITE = "read", "write"
LOAD, STORE, WGMMA, THREAD = "load", "store", "wgmma", "thread"
AGENTS = {
    "copy_gmem_to_smem": LOAD,
    "copy_smem_to_gmem": STORE,
    "wgmma_ref": WGMMA,
    "tcgen05_mma": WGMMA,
}

Range = tuple[slice | int, ...]


@dataclasses.dataclass(kw_only=True)
class Buffer:
    """Memory that accesses are made to.

    Attributes:
      name: What the kernel calls it; empty if that is not known.
      shape: Its logical shape.
      dtype: Its elements.
      space: `GMEM`, `SMEM`, ...
      of_pipeline: Whether one of JAX's pipelines cycles through its slots.
      loaded_from: Name of the operand that is loaded into it.
      loads: How many tiles were loaded into it.
      steps: The load that filled a slot last, by slot, counted from 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    space: str
    of_pipeline: bool = False
    loaded_from: str = ""
    loads: int = 0
    steps: dict[int | None, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Access:
    """An access to a buffer.

    Attributes:
      kind: `read` or `write`.
      agent: `load` and `store` (by TMA), `wgmma`, or the `thread` itself.
      range: Indices and slices, one for each dimension.
      slot: First index, if it is one and more dimensions follow.
      step: Which load this is, or which filled what is accessed; counted from 0.
      position: Who made it, and where.
      clock: JAX's vector clock of it.
    """

    kind: str
    agent: str
    range: Range
    slot: int | None
    step: int | None
    position: Position
    clock: Any

    @property
    def atomic(self) -> bool:
        """Whether it adds to what is there: the order of such does not matter."""
        reduces = self.position.operation.params.get("reduction_op") is not None
        return reduces or getattr(self.clock, "atomic", False)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Race:
    """Two accesses that nothing orders; `first` came first in the interpreter."""

    buffer: Buffer
    first: Access
    second: Access


@dataclasses.dataclass(frozen=True, kw_only=True)
class Allocation:
    """What allocated a buffer, or a barrier as one of an array of them."""

    operation: Operation
    index: int
    count: int


def race(old: Access, new: Access, space: str) -> bool:
    if not _writes(old, new):
        return False
    if old.position.cta != new.position.cta:
        # Whatever else the CTAs of a grid share, they get anew.
        return space == "GMEM" and _overlap(old.range, new.range)
    return _overlap(old.range, new.range) and not _ordered(old, new)


def conflict(old: Access, new: Access) -> bool:
    """Whether accesses to buffers that share memory race."""
    return _writes(old, new) and not _ordered(old, new)


def _writes(old: Access, new: Access) -> bool:
    """Whether it matters in which order two accesses to one place come."""
    return WRITE in (old.kind, new.kind) and not (old.atomic and new.atomic)


def _ordered(one: Access, other: Access) -> bool:
    return _before(one, other) or _before(other, one)


def _before(one: Access, other: Access) -> bool:
    mine, others = one.clock.clock, other.clock.clock
    return bool((mine <= others).all() and (mine < others).any())


def covers(write: Access, old: Access) -> bool:
    """Whether all that races with an earlier access races with this write, too."""
    if write.atomic and not old.atomic:
        return False  # Another atomic access races with the old one alone.
    same = old.range == write.range and old.position.cta == write.position.cta
    return same and _before(old, write)


def _overlap(one: Range, other: Range) -> bool:
    return all(
        _meet(_indices(a), _indices(b)) for a, b in zip(one, other, strict=False)
    )


def _indices(index: slice | int) -> range:
    if isinstance(index, slice):
        return range(index.start, index.stop, index.step or 1)
    return range(index, index + 1)


def _meet(one: range, other: range) -> bool:
    if one.step == other.step == 1:
        return max(one.start, other.start) < min(one.stop, other.stop)
    return not set(one).isdisjoint(other)


def is_whole(rnge: Range, shape: tuple[int, ...]) -> bool:
    return all(
        isinstance(index, slice) and len(_indices(index)) == size
        for index, size in zip(rnge, shape, strict=False)
    )
