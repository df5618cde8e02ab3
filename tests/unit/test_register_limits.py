"""The register rules draw the border where ptxas drew it on a GPU."""

import json
from pathlib import Path

import pytest
from made import load

from kgen.errors import SpecError
from kgen.plan import make_plan

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "register_limits.json"
KERNELS = json.loads(RESULTS.read_text())["kernels"]


@pytest.mark.parametrize(
    "kernel", KERNELS, ids=lambda k: f"{k['compute_wgs']}wgs-{k['m']}x{k['n']}"
)
def test_what_ptxas_compiled_without_spills_is_legal_and_nothing_else(kernel, tmp_path):
    text = (
        '[kernel]\nlayout = "nt"\n'
        f"[tile]\nm = {kernel['m']}\nn = {kernel['n']}\n"
        "[pipeline]\nmax_concurrent_steps = 2\n"
    )
    if wgs := kernel["compute_wgs"]:
        text += f"[schedule]\nwarp_specialized = true\nnum_compute_wgs = {wgs}\n"
    spec = load(tmp_path, text)
    if kernel["compiled"] and kernel["spilled_bytes"] == 0:
        make_plan(spec)
        return
    with pytest.raises(SpecError) as error:
        make_plan(spec)
    assert {p.code for p in error.value.problems} <= {"KG402", "KG405"}
