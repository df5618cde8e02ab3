"""A cluster is simulated on a machine of one CPU, too: its CTAs wait for each other."""

import dataclasses
import os

import pytest
from made import plan
from oldest import newest_only

from kgen.emit.render import render
from kgen.pipeline import request_of
from kgen.verify import RequestCase, verify
from kgen.verify.request import SIMULATE

pytestmark = newest_only

TABLES = """[tile]
m = 64
n = 64
[schedule]
warp_specialized = true
num_compute_wgs = 1
persistent = true
[cluster]
m = 2
"""


@pytest.fixture
def _one_cpu():
    """Leaves one CPU to this process and those that it starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("_one_cpu")
def test_clusters_are_simulated_on_one_cpu(tmp_path):
    made = plan(tmp_path, TABLES)
    m, n, k = (each * unit for each, unit in zip((3, 1, 4), made.units, strict=True))
    case = RequestCase(m=m, n=n, k=k, num_sms=4)
    request = request_of(made, render(made, verified=False, prove=False))
    request = dataclasses.replace(request, cases=(case,))
    verdict = verify(request, levels=(SIMULATE,), cache=False, timeout=40)
    assert verdict.passed, str(verdict.failure)
