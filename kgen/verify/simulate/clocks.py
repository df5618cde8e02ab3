"""The vector clock of an atomic access.

A race detector takes two accesses for ordered if a vector clock orders them. Atomic
accesses (TMA reductions, `plgpu.atomic_add`) are never a race among themselves, in
whatever order they come, but are one with any other access that is not ordered.
"""

from typing import Any


class AtomicClock:
    """Stands in for JAX's vector clock.

    Attributes:
      clock: The counters, as in JAX's class.
      atomic: Tells the race detector.
    """

    atomic = True

    def __init__(self, original: Any) -> None:
        self._original = original
        self.clock = original.clock

    def ordered(self, later: Any) -> bool:
        """Whether this access and a later one cannot race."""
        return getattr(later, "atomic", False) or bool(self._original.ordered(later))
