"""What nobody waits for when a barrier goes out of scope.

A kernel need not wait for what arrives at a barrier last: the consumers of a ring
release its slots at the end, too, and nobody loads them anew. JAX 0.11 objects to that.
A load is another thing: TMA would write into SMEM that belongs to the next CTA by then.
No version of JAX objects to that.
"""

import functools
from collections.abc import Callable
from typing import Any

from kgen.verify.simulate.pieces import Jax

UNSEEN_LOAD = "Barrier deallocated with a load that nobody has waited for"
_LOADED = "_kgen_phase_of_last_load"


def objects_to_unseen_phases(jax: Jax) -> bool:
    """Whether this JAX wants every thread to see a barrier to its end."""
    return not hasattr(jax.memory, "BarrierReallocationChecker")


def begin_load(barrier: Any) -> None:
    """Notes that the phase that a barrier is in brings a load."""
    setattr(barrier, _LOADED, barrier.phase + 1)


def objecting_to_unseen_loads(
    deallocate: Callable[[Any], None],
) -> Callable[[Any], None]:
    """Wraps a barrier's end; raises ValueError if nobody has waited for a load."""

    @functools.wraps(deallocate)
    def deallocate_barrier(self: Any) -> None:
        with self.cv:
            seen = max(self.last_observed_phase_by_thread.values(), default=0)
            if self.ref_count == 1 and getattr(self, _LOADED, 0) > seen:
                raise ValueError(UNSEEN_LOAD)
            deallocate(self)

    return deallocate_barrier


def tolerating_unseen_phases(
    deallocate: Callable[[Any], None],
) -> Callable[[Any], None]:
    """Wraps a barrier's end; that arrivals are missing is still an error."""

    @functools.wraps(deallocate)
    def deallocate_barrier(self: Any) -> None:
        with self.cv:
            if self.ref_count == 1:
                self.last_observed_phase_by_thread.clear()
            deallocate(self)

    return deallocate_barrier
