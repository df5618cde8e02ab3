"""Barriers of JAX before 0.12: the last arrivals may go unseen.

A kernel need not wait for what arrives at a barrier last: the consumers of a ring
release its slots at the end, too, and nobody loads them anew. JAX 0.11 objects to that
when the barrier goes out of scope.
"""

import functools
from collections.abc import Callable
from typing import Any

from kgen.verify.simulate.pieces import Jax


def objects_to_unseen_phases(jax: Jax) -> bool:
    """Whether this JAX wants every thread to see a barrier to its end."""
    return not hasattr(jax.memory, "BarrierReallocationChecker")


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
