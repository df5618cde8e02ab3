"""JAX's own interpreter still has the gaps that kgen closes.

A test that fails here is good news: JAX does it itself. Then the gap's row in
`kgen/verify/simulate/gaps.py` is given its `until`, and what closes it can go once no
supported JAX needs it.
"""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from kgen.verify.simulate.gaps import FIRST, GAPS
from kgen.verify.upstream import SUPPORTED

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "execution" / "kernels"
# In a process of its own: the simulator stays installed in the one that tests it.
OWN = """
import dataclasses, json, sys
sys.path.insert(0, sys.argv[1])
import jax, numpy as np
import interpreter_gaps as gaps
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax._src import config
from jax._src.pallas.mosaic_gpu.interpret import interpret_pallas_call as interpret

options = {"detect_races": True, "uninitialized_memory": "nan"}
names = {field.name for field in dataclasses.fields(plgpu.InterpretGPUParams)}
options |= {"on_race": "warn"} if "on_race" in names else {}
params = plgpu.InterpretGPUParams(num_tma_threads_per_device=32, **options)
config.pallas_tpu_interpret_mode_context_manager.set_global(params)
outcomes = {}
for name in sys.argv[2:]:
    if (probe := gaps.ALL.get(name)) is None:
        continue  # This JAX lacks what the kernel is about.
    interpret.reset_gpu_interpret_mode_state()
    try:
        result = np.asarray(jax.jit(probe.function)(*probe.inputs))
    except Exception as error:
        outcomes[name] = "error"
        continue
    race = interpret.get_races().races_found
    right = probe.expected is None or np.array_equal(result, probe.expected)
    outcomes[name] = "race" if race else "right" if right else "wrong"
print(json.dumps(outcomes))
"""
SIMULATED = {"RIGHT": "right", "RACY": "race"}
CASES = [(gap, probe) for gap in GAPS for probe in gap.probes]
PROBES = [probe for _, probe in CASES]
RIGHT_IN_JAX = ("two_groups", "zeros_beyond_the_end", "multicast")


def numbers(version):
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


@functools.cache
def own_outcomes():
    """Returns what JAX's own interpreter makes of every kernel."""
    done = subprocess.run(
        [sys.executable, "-c", OWN, str(KERNELS), *RIGHT_IN_JAX, *PROBES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def simulated_outcome(probe):
    """Returns what kgen makes of a kernel: see test_simulated_gaps.py."""
    sys.path.append(str(KERNELS))
    import interpreter_gaps as gaps

    for group, outcome in SIMULATED.items():
        if probe in getattr(gaps, group):
            return outcome
    if probe in gaps.REFUSED:
        return "right"  # Refused by kgen, as long as JAX does not get it right.
    return "wrong" if probe == "undefined_beyond_the_end" else "error"


@pytest.mark.parametrize(("gap", "probe"), CASES, ids=PROBES)
def test_jax_itself_does_not_do_as_kgen_does(gap, probe):
    version = numbers(jax.__version__)
    if version < numbers(gap.since):
        assert probe not in own_outcomes()
        return
    closed = bool(gap.until) and version >= numbers(gap.until)
    assert (own_outcomes()[probe] == simulated_outcome(probe)) == closed


def test_what_the_gaps_rest_on_is_right_in_jax_itself():
    """The kernels above differ from these in the gap alone."""
    outcomes = own_outcomes()
    for probe in RIGHT_IN_JAX:
        assert outcomes[probe] == "right"


def test_every_kernel_of_the_gaps_lowers_for_a_gpu():
    """So it is the interpreter that lacks something, and not the kernel."""
    sys.path.append(str(KERNELS))
    import interpreter_gaps as gaps

    for probe in gaps.ALL.values():
        traced = jax.jit(probe.function).trace(*probe.inputs)
        traced.lower(lowering_platforms=("cuda",))


def test_the_gaps_are_told_for_supported_versions():
    assert numbers(FIRST) == SUPPORTED[0]
    for gap in GAPS:
        assert numbers(gap.since) >= SUPPORTED[0]
        assert gap.probes
