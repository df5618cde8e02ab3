"""What of a barrier's completions is waited for, and what need not be.

A barrier remembers one completion. JAX's interpreter objects if in its run a second one
comes before a thread has waited for the first. Here it is enough that it could: that
nothing orders the wait before the arrivals.

A kernel need not wait for what arrives at a barrier last: the consumers of a ring
release its slots at the end, too, and nobody loads them anew. JAX 0.11 objects to that.
A load is another thing: TMA would write into SMEM that belongs to the next CTA by then.
No version of JAX objects to that.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from kgen.verify.simulate.pieces import Jax

UNSEEN_LOAD = "Barrier deallocated with a load that nobody has waited for"
UNORDERED = "Barrier may complete again before a thread has waited for it"
_LOADED = "_kgen_phase_of_last_load"
_WAITS = "_kgen_clocks_of_waits"
_ARRIVALS = "_kgen_clocks_of_arrivals"


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


def noting_waits(wait: Callable[..., None]) -> Callable[..., None]:
    """Wraps a wait, so that `ordered_after_waits` knows when it was."""

    @functools.wraps(wait)
    def noted(self: Any, thread: Any, *arguments: Any, **options: Any) -> None:
        wait(self, thread, *arguments, **options)
        if self.detect_races:
            shared = self.shared_memory
            clock = shared.incr_clock(thread).generic_clock.clock
            position = shared.thread_to_vc_position(thread)
            with self.cv:
                vars(self).setdefault(_WAITS, {})[position] = clock[position]

    return noted


def ordered_after_waits(arrive: Callable[..., None]) -> Callable[..., None]:
    """Wraps an arrival; raises ValueError if a wait for the last completion is later.

    A barrier completes when the last arrival comes, whichever that is: their clocks
    together must know of every thread's last wait.
    """

    @functools.wraps(arrive)
    def checked(self: Any, thread: Any, clock: Any = None, *arguments: Any) -> None:
        if self.detect_races and clock is not None:
            with self.cv:
                arrivals = vars(self).setdefault(_ARRIVALS, [])
                arrivals.append(clock.generic_clock.clock.copy())
                if len(arrivals) == self.num_arrivals:
                    known = np.maximum.reduce(arrivals)
                    arrivals.clear()
                    waits = vars(self).get(_WAITS, {})
                    if any(known[position] < at for position, at in waits.items()):
                        raise ValueError(UNORDERED)
        arrive(self, thread, clock, *arguments)

    return checked
