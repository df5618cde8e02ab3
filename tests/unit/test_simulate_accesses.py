"""When two accesses race, and what is said of where."""

import dataclasses

import numpy as np
import pytest

from kgen.verify.simulate import accesses, races
from kgen.verify.simulate.accesses import Access, Buffer
from kgen.verify.simulate.operations import Operation, Position

ROWS, OTHER_ROWS, ALL = slice(0, 64, 1), slice(64, 128, 1), slice(0, 128, 1)


@dataclasses.dataclass
class Clock:
    clock: np.ndarray


@dataclasses.dataclass
class Location:
    cluster_coords: tuple
    block_coords: tuple = ()


def access(
    kind="write", rnge=(ROWS, ALL), clock=(1, 0), cta=(0,), slot=None, **params
) -> Access:
    operation = Operation(callback="f", primitive="p", params=params, traces=())
    position = Position(operation=operation, thread=None, location=Location(cta))
    return Access(
        kind=kind,
        agent="thread",
        range=rnge,
        slot=slot,
        step=None,
        position=position,
        clock=Clock(np.array(clock)),
    )


@pytest.mark.parametrize(
    ("other", "space", "expected"),
    [
        ({}, "SMEM", True),  # The very same clock orders nothing.
        ({"clock": (0, 1)}, "SMEM", True),
        ({"clock": (2, 0)}, "SMEM", False),
        ({"clock": (0, 0)}, "SMEM", False),
        ({"kind": "read", "clock": (0, 1)}, "SMEM", True),
        ({"rnge": (OTHER_ROWS, ALL), "clock": (0, 1)}, "SMEM", False),
        ({"rnge": (slice(63, 65, 1), 7), "clock": (0, 1)}, "SMEM", True),
        ({"rnge": (slice(1, 64, 2), ALL), "clock": (0, 1)}, "SMEM", True),
        ({"rnge": (slice(64, 128, 2), ALL), "clock": (0, 1)}, "SMEM", False),
        ({"clock": (2, 0), "cta": (1,)}, "GMEM", True),
        ({"clock": (0, 1), "cta": (1,)}, "REGS", False),
    ],
)
def test_accesses_race_if_nothing_orders_them(other, space, expected):
    assert accesses.race(access(), access(**other), space) is expected
    assert accesses.race(access(**other), access(), space) is expected


def test_reads_do_not_race():
    reads = access(kind="read"), access(kind="read", clock=(0, 1))
    assert not accesses.race(*reads, "SMEM")


def test_atomic_accesses_race_with_others_alone():
    atomic = access(reduction_op="add", clock=(0, 1))
    assert not accesses.race(atomic, access(reduction_op="add"), "GMEM")
    assert accesses.race(atomic, access(), "GMEM")


def test_only_an_equal_and_earlier_access_is_covered():
    write = access(clock=(2, 1))
    assert accesses.covers(write, access(clock=(1, 1)))
    assert not accesses.covers(write, access(clock=(3, 0)))
    assert not accesses.covers(write, access(clock=(1, 1), rnge=(ALL, ALL)))
    assert not accesses.covers(write, access(clock=(1, 1), cta=(1,)))


def test_an_atomic_write_covers_only_atomic_ones():
    """Another atomic write races with a plain one alone."""
    atomic = access(clock=(2, 1), reduction_op="add")
    assert not accesses.covers(atomic, access(clock=(1, 1)))
    assert accesses.covers(atomic, access(clock=(1, 1), reduction_op="add"))


@pytest.mark.parametrize(
    ("rnge", "slot", "expected"),
    [
        ((0, slice(0, 64, 1)), 0, "slot 0"),
        ((slice(0, 2, 1), slice(0, 64, 1)), None, ""),
        ((1, slice(0, 32, 1)), 1, "[1, 0:32]"),
        ((slice(0, 2, 1), slice(32, 64, 1)), None, "[:, 32:64]"),
    ],
)
def test_a_part_of_a_buffer_is_told_as_it_is_written(rnge, slot, expected):
    buffer = Buffer(name="ring", shape=(2, 64), dtype="float16", space="SMEM")
    assert races._part(access(rnge=rnge, slot=slot), buffer) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"of_pipeline": True, "loaded_from": "b"}, "the ring of b (f[2, 4] in SMEM)"),
        ({"loaded_from": "b"}, "x_ring, loaded from b (f[2, 4] in SMEM)"),
        ({"name": "", "space": "REGS"}, "the accumulator (f[2, 4] in registers)"),
        ({"name": "out", "space": "GMEM"}, "out (f[2, 4] in GMEM)"),
    ],
)
def test_a_buffer_is_told_by_what_is_in_it(changes, expected):
    fields = {"name": "x_ring", "shape": (2, 4), "dtype": "f", "space": "SMEM"}
    assert races.describe_buffer(Buffer(**(fields | changes))) == expected
