"""A barrier that may complete again before a thread has waited for it is refused."""

import functools
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from kgen.verify.simulate import phases


class Clock(SimpleNamespace):
    """A clock of four threads, as JAX's: its counters lie in `generic_clock.clock`."""


def clock(*counts):
    return Clock(generic_clock=SimpleNamespace(clock=np.array(counts)))


class Shared:
    """Threads have positions, and a clock that a wait advances."""

    def __init__(self, **clocks):
        self.clocks = clocks

    def incr_clock(self, thread):
        counts = self.clocks[thread]
        counts[self.thread_to_vc_position(thread)] += 1
        return clock(*counts)

    def thread_to_vc_position(self, thread):
        return sorted(self.clocks).index(thread)


class Barrier:
    """What the wrappers need of JAX's barrier."""

    def __init__(self, num_arrivals=1, detect_races=True):
        self.cv = threading.Condition()
        self.num_arrivals, self.detect_races = num_arrivals, detect_races
        self.shared_memory = Shared(a=[0, 0], b=[0, 0])
        self.arrived = 0
        self.wait = functools.partial(phases.noting_waits(lambda *_: None), self)
        self.arrive = functools.partial(phases.ordered_after_waits(count), self)


def count(barrier, *_):
    barrier.arrived += 1


def test_an_arrival_that_knows_of_the_wait_may_complete_it_again():
    barrier = Barrier()
    barrier.arrive("b", clock(0, 1))
    barrier.wait("a")  # At 1.
    barrier.arrive("b", clock(1, 2))
    assert barrier.arrived == 2


def test_an_arrival_that_nothing_orders_after_the_wait_may_not():
    barrier = Barrier()
    barrier.arrive("b", clock(0, 1))
    barrier.wait("a")
    with pytest.raises(ValueError, match="may complete again before"):
        barrier.arrive("b", clock(0, 2))


def test_one_of_several_arrivals_must_know_of_the_wait():
    barrier = Barrier(num_arrivals=2)
    barrier.wait("a")
    barrier.arrive("b", clock(0, 1))
    barrier.arrive("b", clock(1, 1))
    barrier.arrive("b", clock(0, 2))
    barrier.wait("a")
    with pytest.raises(ValueError, match="may complete again before"):
        barrier.arrive("b", clock(1, 2))


def test_without_clocks_nothing_is_asked():
    barrier = Barrier(detect_races=False)
    barrier.wait("a")
    barrier.arrive("b", None)
    assert barrier.arrived == 1
