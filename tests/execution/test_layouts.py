"""Layouts of operands and result with every schedule: all levels that need no GPU."""

import itertools

import pytest
from alone import NO_KGEN, run_tests
from made import plan, request_at
from oldest import every_third

from kgen.emit.render import render

RING = "[pipeline]\nmax_concurrent_steps = 2\n"
TWO_WGS = "[schedule]\nwarp_specialized = true\n"
ONE_WG = TWO_WGS + "num_compute_wgs = 1\n"
PERSISTENT, SPLIT_2 = "persistent = true\n", "split_k = 2\n"
SPLIT_N, SWAPPED = 'split = "n"\n', "swap_operands = true\n"
CLUSTER_M, CLUSTER_N = "[cluster]\nm = 2\n", "[cluster]\nn = 2\n"
ACROSS_N = '[raster]\norder = "n"\nwidth = 3\n'
PIECES_OF_64 = "[store]\nn = 64\nslots = 2\n"
# Tiles along m, n and k, and SMs: fewer steps than slots, more, and twice around.
SHORT, LONG, WALK = ((1, 2, 1), None), ((2, 1, 3), None), ((3, 1, 4), 2)
TILE = "[tile]\nm = 64\nn = 64\n"
SCHEDULES = {
    "pipelined": (TILE, LONG),
    "pallas_call": ('entry_point = "pallas_call"\n' + TILE, LONG),
    "two_warpgroups": ("[tile]\nm = 128\nn = 64\n" + TWO_WGS, LONG),
    "split_n": ("[tile]\nm = 64\nn = 128\n" + TWO_WGS + SPLIT_N, SHORT),
    "persistent": (TILE + ONE_WG + PERSISTENT, WALK),
    "persistent_cluster_m": (
        TILE + ONE_WG + PERSISTENT + CLUSTER_M + ACROSS_N,
        ((2, 1, 4), 4),
    ),
    "pieces_in_cluster_n": (
        "[tile]\nm = 64\nn = 128\n" + ONE_WG + CLUSTER_N + PIECES_OF_64,
        SHORT,
    ),
    "split_k": (TILE + ONE_WG + SPLIT_2, LONG),
    "swapped": ("[tile]\nm = 16\nn = 64\n" + ONE_WG + SWAPPED, LONG),
}
LAYOUTS = ("nn", "nt", "tn", "tt")
ORDERS = ("row", "column")
# Every layout with both orders, and every schedule with one of these eight.
KINDS = tuple(itertools.product(LAYOUTS, ORDERS))
CASES = [
    (schedule, *KINDS[(3 * index + 1) % len(KINDS)])
    for index, schedule in enumerate(SCHEDULES)
]


@pytest.mark.parametrize(("schedule", "layout", "order"), every_third(CASES))
def test_layout_passes(schedule, layout, order, prover, tmp_path):
    tables, size = SCHEDULES[schedule]
    kernel = f'[kernel]\nlayout = "{layout}"\nout_order = "{order}"\n'
    made = plan(tmp_path, kernel + tables + RING, schedule)
    verdict = prover.verify(request_at(made, (size,)), x64=False)
    assert verdict.passed, str(verdict.failure)


@pytest.fixture
def alone(tmp_path):
    """A kernel whose operands and result all lie otherwise, and its own test."""
    kernel = '[kernel]\nlayout = "tt"\nout_order = "column"\n'
    rendered = render(
        plan(tmp_path, kernel + TILE, "turned"), verified=False, prove=False
    )
    (tmp_path / "turned.py").write_text(rendered.source, "utf-8")
    (tmp_path / "test_turned.py").write_text(rendered.test_source, "utf-8")
    (tmp_path / "kgen.py").write_text(NO_KGEN)
    return tmp_path


def test_a_module_passes_its_own_test(alone):
    done = run_tests(alone, "-k", "not 448")
    assert done.returncode == 0, done.stdout


def test_its_own_test_tells_an_operand_that_is_not_transposed(alone):
    text = (alone / "turned.py").read_text("utf-8")
    (alone / "turned.py").write_text(text.replace("a_smem.T", "a_smem"), "utf-8")
    done = run_tests(alone, "-x", "-k", "integers")
    assert done.returncode == 1
    assert "m=64, n=" in done.stdout
    assert "other operands, indices or steps than meant" in done.stdout
