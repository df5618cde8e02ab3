"""wgmma is asynchronous: a slot that is loaded anew under it is a race."""

import dataclasses
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from made import Made, module, plan

from kgen.verify import verify
from kgen.verify.explain import LevelError

SCHEDULES = {
    "pipelined": "[tile]\nm = 64\nn = 64\n",
    "warp_specialized": "[tile]\nn = 64\n[schedule]\nwarp_specialized = true\n",
    "pallas_call": '[kernel]\nentry_point = "pallas_call"\n[tile]\nm = 64\nn = 64\n',
}
RING = (
    "[pipeline]\nmax_concurrent_steps = {stages}\ndelay_release = {delay}\n"
    "wgmma_in_flight = {in_flight}\n"
)


def edited(directory, schedule, ring, *edits):
    """Returns a module made by kgen with some text replaced, as by hand."""
    made = module(directory, plan(directory, SCHEDULES[schedule] + ring))
    text = made.path.read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = directory / "edited.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("edited", path)
    imported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(imported)
    return Made(made.plan, path, made.request, imported.matmul)


def line_of(path, text):
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_slot_released_too_early_is_a_race(schedule, stages, tmp_path):
    ring = RING.format(stages=stages, delay=1, in_flight=1)
    edit = ("DELAY_RELEASE = 1", "DELAY_RELEASE = 0")
    made = edited(tmp_path, schedule, ring, edit)
    with pytest.raises(LevelError) as error:
        made.simulate(made.at((1, 2, 7)))
    told = str(error.value)
    load = line_of(made.path, "plgpu.emit_pipeline")
    read = line_of(made.path, "plgpu.wgmma(")
    assert f"data race on slot 0 of the ring of a (bfloat16[{stages}, " in told
    assert f"pipeline step {stages}:\n  edited.py:{read}: plgpu.wgmma(" in told
    assert "<- step 0's wgmma may still be reading it" in told
    assert f"  edited.py:{load}: plgpu.emit_pipeline" in told
    assert f"<- loads step {stages}'s tile" in told
    constant = line_of(made.path, "DELAY_RELEASE = 0")
    assert f"raise delay_release to 1 (edited.py:{constant}: DELAY_REL" in told


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_missing_wait_is_a_race(schedule, tmp_path):
    ring = RING.format(stages=3, delay=0, in_flight=0)
    made = edited(tmp_path, schedule, ring, ("    plgpu.wgmma_wait(0)\n", ""))
    with pytest.raises(LevelError, match="data race on slot 0 of the ring of a"):
        made.simulate(made.at((1, 1, 5)))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("stages", "delay", "in_flight"), [(1, 0, 0), (2, 1, 1), (4, 2, 2)]
)
def test_what_is_released_in_time_is_no_race(
    schedule, stages, delay, in_flight, tmp_path
):
    ring = RING.format(stages=stages, delay=delay, in_flight=in_flight)
    made = module(tmp_path, plan(tmp_path, SCHEDULES[schedule] + ring))
    made.simulate(made.at((1, 2, 7), (1, 1, stages + 2)))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_delay_covers_all_that_stay_in_flight(schedule, tmp_path):
    """JAX lowers no wait before a wgmma, whatever its documentation says."""
    ring = RING.format(stages=4, delay=3, in_flight=3)
    edit = ("DELAY_RELEASE = 3", "DELAY_RELEASE = 1")
    made = edited(tmp_path, schedule, ring, edit)
    with pytest.raises(LevelError) as error:
        made.simulate(made.at((1, 1, 7)))
    constant = line_of(made.path, "DELAY_RELEASE = 1")
    assert (
        "wait in every step with plgpu.wgmma_wait(1), as many as delay_release"
        f" (edited.py:{constant}: DELAY_RELEASE = 1) keeps slots for"
    ) in str(error.value)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [3, 6])
def test_a_missing_wait_is_a_race_whatever_the_delay(schedule, stages, tmp_path):
    ring = RING.format(stages=stages, delay=1, in_flight=1)
    made = edited(
        tmp_path, schedule, ring, ("    plgpu.wgmma_wait(WGMMA_IN_FLIGHT)\n", "")
    )
    with pytest.raises(LevelError, match="data race on slot 0 of the ring of a"):
        made.simulate(made.at((1, 1, stages + 3)))


def test_of_two_in_flight_each_is_seen(tmp_path):
    """That the first has retired says nothing of the second."""
    ring = RING.format(stages=4, delay=2, in_flight=2)
    edit = ("DELAY_RELEASE = 2", "DELAY_RELEASE = 1")
    made = edited(tmp_path, "pipelined", ring, edit)
    with pytest.raises(LevelError, match="wgmma may still be reading it"):
        made.simulate(made.at((1, 1, 7)))


def test_the_verifier_tells_the_race(tmp_path):
    made = module(tmp_path, plan(tmp_path, SCHEDULES["pipelined"]))
    source = made.request.source
    assert "DELAY_RELEASE = 1" in source
    broken = source.replace("DELAY_RELEASE = 1", "DELAY_RELEASE = 0")
    request = dataclasses.replace(made.request, source=broken)
    verdict = verify(request, cache=False)
    assert verdict.failure.level == "simulate"
    assert "data race on slot 0 of the ring of a (" in verdict.failure.detail


# In a process of its own: asynchronous wgmmas stay installed in this one.
PLAIN = """
import importlib.util, sys
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax._src.pallas.mosaic_gpu.interpret import interpret_pallas_call as interpret

spec = importlib.util.spec_from_file_location("broken", sys.argv[1])
broken = importlib.util.module_from_spec(spec)
spec.loader.exec_module(broken)
a, b = jnp.ones((64, 448), broken.DTYPE), jnp.ones((448, 64), broken.DTYPE)
params = plgpu.InterpretGPUParams(detect_races=True)
broken.matmul(a, b, interpret=params).block_until_ready()
print(interpret.get_races().races_found)
"""


def test_jax_itself_still_sees_no_such_race(tmp_path):
    """Fails as soon as JAX closes the gap: then kgen's own part can go."""
    made = module(tmp_path, plan(tmp_path, SCHEDULES["pipelined"]))
    path = Path(tmp_path) / "broken.py"
    text = made.path.read_text()
    path.write_text(text.replace("DELAY_RELEASE = 1", "DELAY_RELEASE = 0"))
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["False"], done.stderr
