"""Says in words at which barrier a thread waits, for what, and why that never comes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgen.verify.simulate import source
from kgen.verify.simulate.accesses import Allocation
from kgen.verify.simulate.operations import Position
from kgen.verify.simulate.records import Records

KEY = "_kgen_key"
"""Where a barrier keeps JAX's key of its allocation."""
LOADED, RELEASED = "loaded", "released"
# Names that JAX's pipelines give their barriers.
_OF_PIPELINES = {
    "flat_produced_barrier_refs": LOADED,
    "flat_consumed_barrier_refs": RELEASED,
}
_OF_EMIT_PIPELINE = "barrier_ref"
DELAYED = (
    "the pipeline never loads that slot: max_concurrent_steps must be larger than every"
    " delay_release"
)
NOT_STARTED = (
    "the pipeline has loaded nothing: the first pipeline_state must be START, or None"
    " where there is a single tile"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wait:
    """A thread that waits.

    Attributes:
      barrier: JAX's barrier.
      position: Where the thread is.
    """

    barrier: Any
    position: Position

    @property
    def who(self) -> str:
        """The thread."""
        return self.position.who()

    @property
    def arrivals(self) -> str:
        """How many of the arrivals came, such as `1 of 2 arrivals`."""
        count, needed = self.barrier.arrivals_count, self.barrier.num_arrivals
        return f"{count} of {needed} arrival{'' if needed == 1 else 's'}"


def describe_wait(wait: Wait, records: Records, module: Path) -> str:
    """Returns where a thread waits, for which barrier, and what came of it."""
    operation = wait.position.operation
    place = operation.describe(module)
    if operation.in_pipeline:
        place = f"in the pipeline of {place}"
    return (
        f"{place}  <- waits for {describe_barrier(wait.barrier, records, module)},"
        f" {wait.arrivals}"
    )


def describe_barrier(barrier: Any, records: Records, module: Path) -> str:
    """Names a barrier by what it guards, or else by its name and line."""
    allocation = _allocation(barrier, records)
    if allocation is None:
        return "a named barrier"
    slot = f"slot {allocation.index}"
    match _role(allocation):
        case "loaded":
            return f"the load of {slot}"
        case "released":
            return f"{slot} to be released"
    name = source.short(allocation.operation.label)
    index = f"[{allocation.index}]" if allocation.count > 1 else ""
    line = source.barrier_line(name, module) if name else None
    if line is None and (place := allocation.operation.own_place(module)):
        line = place[1]
    return f"{name or 'a barrier'}{index}" + (f" (line {line})" if line else "")


def deadlock_hint(waits: Sequence[Wait], records: Records, *, ended: bool) -> str:
    """Returns what to change.

    Args:
      waits: The threads that wait.
      records: What is known of the kernel.
      ended: Whether other threads have ended.
    """
    told = [hint for wait in waits if (hint := _hint(wait, records))]
    if told:
        # What was never loaded need not be released.
        first = [hint for hint in told if hint in (DELAYED, NOT_STARTED)]
        return "; ".join(dict.fromkeys(first or told))
    who = " before the other warpgroups end" if ended else ""
    return (
        f"nobody arrives at that barrier{who}: a plgpu.barrier_arrive or a"
        " copy_gmem_to_smem with it is missing, or comes only after a wait that never"
        " ends"
    )


def _hint(wait: Wait, records: Records) -> str | None:
    """Returns what the barrier itself says of the cause."""
    allocation = _allocation(wait.barrier, records)
    role = _role(allocation) if allocation else None
    arrived, needed = wait.barrier.arrivals_count, wait.barrier.num_arrivals
    if allocation and role == LOADED:
        if allocation.operation.label == _OF_EMIT_PIPELINE:
            return DELAYED
        return NOT_STARTED if wait.barrier.phase == 0 else None
    if role == RELEASED:
        return (
            f"not every compute warpgroup releases that slot: {needed} of them must"
            " arrive once per step (num_compute_wgs; manual_consumed_barriers)"
        )
    if arrived:
        return (
            f"num_arrivals is {needed} and only {arrived} came: count one for each"
            " copy_gmem_to_smem with that barrier and one for each barrier_arrive of"
            " a warpgroup"
        )
    return None


def _allocation(barrier: Any, records: Records) -> Allocation | None:
    key = getattr(barrier, KEY, None)
    return None if key is None else records.allocation(key)


def _role(allocation: Allocation) -> str | None:
    """Returns what a barrier of one of JAX's pipelines says of its slot."""
    label = allocation.operation.label
    if label == _OF_EMIT_PIPELINE and allocation.operation.in_pipeline:
        return LOADED
    roles = [role for name, role in _OF_PIPELINES.items() if name in label]
    return roles[0] if roles else None
