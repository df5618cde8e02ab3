"""Vector clocks that know of atomic accesses and of clusters that ran before.

JAX's race detector takes two accesses for ordered if `earlier.ordered(later)`. Two
things are beyond a vector clock, and are told by the recorded clock itself:

- Atomic accesses (TMA reductions, `plgpu.atomic_add`) are never a race among
  themselves.
- JAX runs the clusters of a grid one after the other and sets all clocks back in
  between. On a GPU nothing orders them: whatever one wrote to GMEM may be read or
  written by no other one.
"""

import functools
from collections.abc import Callable
from typing import Any


class AccessClock:
    """The clock of an access, in place of JAX's own.

    Attributes:
      clock: The counters, as in JAX's class.
      atomic: Whether the access is atomic.
      past: Whether the cluster that made the access has ended.
    """

    def __init__(self, original: Any, *, atomic: bool, past: bool = False) -> None:
        self._original = original
        self.clock = original.clock
        self.atomic = atomic
        self.past = past

    def ordered(self, later: Any) -> bool:
        """Whether this access and a later one cannot race."""
        if self.atomic and getattr(later, "atomic", False):
            return True
        return not self.past and bool(self._original.ordered(later))

    def __repr__(self) -> str:
        return f"AccessClock({self._original}, atomic={self.atomic}, past={self.past})"


def atomic(clock: Any) -> AccessClock:
    """Returns the clock of an atomic access."""
    return AccessClock(clock, atomic=True)


def forgetting_clusters(
    reset: Callable[[Any], None], get_races: Callable[[], Any], gmem: int
) -> Callable[[Any], None]:
    """Wraps what JAX does between two clusters.

    What they did in SMEM and in registers is forgotten: JAX numbers registers anew.
    """

    @functools.wraps(reset)
    def reset_per_cluster_state(self: Any) -> None:
        reset(self)
        races = get_races()
        for accesses in (races.reads, races.writes):
            for key in list(accesses):
                if key.memory_space_id != gmem:
                    del accesses[key]
                    continue
                accesses[key] = [
                    (thread, _of_the_past(clock), *rest)
                    for thread, clock, *rest in accesses[key]
                ]

    return reset_per_cluster_state


def _of_the_past(clock: Any) -> AccessClock:
    if isinstance(clock, AccessClock):
        clock.past = True
        return clock
    return AccessClock(clock, atomic=False, past=True)
