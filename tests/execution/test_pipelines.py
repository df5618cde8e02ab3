"""Pipelines at their edges: every delay, ring and number of steps, in every schedule."""

import itertools

import pytest
from made import module, plan
from oldest import IS_OLDEST_JAX

STAGES, DELAYS, MOST_STEPS = range(1, 5), range(3), 7
RINGS = [
    (stages, delay)
    for stages, delay in itertools.product(STAGES, DELAYS)
    if stages > delay
]
TILE = "[tile]\nm = {m}\nn = 16\nk = 16\n"
# The tightest ones: the emitters are those of the other two schedules.
FEW_RINGS = [(stages, delay) for stages, delay in RINGS if stages - delay == 1]
SCHEDULES = {
    "pipelined": TILE.format(m=64),
    "pallas_call": TILE.format(m=64) + '[kernel]\nentry_point = "pallas_call"\n',
    "one_warpgroup": TILE.format(m=64)
    + "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\n",
    "two_warpgroups": TILE.format(m=128) + "[schedule]\nwarp_specialized = true\n",
}


@pytest.mark.parametrize(
    ("schedule", "stages", "delay"),
    [
        (schedule, *ring)
        for schedule, rings in (
            ("pipelined", RINGS),
            ("two_warpgroups", RINGS),
            ("pallas_call", FEW_RINGS),
            ("one_warpgroup", FEW_RINGS),
        )
        for ring in rings
    ],
)
def test_every_kind_of_number_of_steps_is_right(schedule, stages, delay, tmp_path):
    if IS_OLDEST_JAX and (stages, delay) not in FEW_RINGS:
        pytest.skip("with the oldest JAX, the tightest rings only")
    # As many in flight as the delay allows: the hardest case.
    pipeline = (
        f"[pipeline]\nmax_concurrent_steps = {stages}\ndelay_release = {delay}\n"
        f"wgmma_in_flight = {delay}\n"
    )
    made = module(tmp_path, plan(tmp_path, SCHEDULES[schedule] + pipeline))
    # One step, a ring that is full but for one or by one, and twice around it and one.
    numbers = {1, stages - 1, stages, stages + 1, min(2 * stages + 1, MOST_STEPS)}
    made.simulate(made.at(*((1, 1, steps) for steps in sorted(numbers - {0}))))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_slot_may_be_released_later_than_needed(schedule, tmp_path):
    pipeline = (
        "[pipeline]\nmax_concurrent_steps = 4\ndelay_release = 2\nwgmma_in_flight = 0\n"
    )
    made = module(tmp_path, plan(tmp_path, SCHEDULES[schedule] + pipeline))
    made.simulate(made.at((1, 1, 3), (2, 1, 5)))
