"""A module and its test, alone in a directory, need jax, numpy and pytest only."""

import shutil
from pathlib import Path

import pytest
from alone import NO_KGEN, run_tests
from made import plan
from oldest import newest_only

from kgen.emit.render import render

pytestmark = newest_only

GENERATED = Path(__file__).parents[2] / "generated"
EXACT, REFUSES = "test_exact_on_integers", "test_refuses_shapes_it_cannot_do"


@pytest.fixture
def alone(tmp_path):
    shutil.copy(GENERATED / "fp16_128x128.py", tmp_path)
    shutil.copy(GENERATED / "tests" / "test_fp16_128x128.py", tmp_path)
    (tmp_path / "kgen.py").write_text(NO_KGEN)
    return tmp_path


def test_they_pass(alone):
    done = run_tests(alone)
    assert done.returncode == 0, done.stdout
    # The two sizes for a GPU are skipped here, with a reason.
    assert "12 passed, 2 skipped" in done.stdout


@pytest.mark.parametrize(
    ("right", "wrong", "failing"),
    [
        ("lambda ki: (m, ki)", "lambda ki: (n, ki)", EXACT),
        ("num_steps=k // TILE_K", "num_steps=max(1, k // TILE_K - 1)", EXACT),
        ('lax.axis_index("m"), lax.axis_index("n")', 'lax.axis_index("m"), 0', EXACT),
        ("    plgpu.commit_smem()  # TMA must see the stores above.\n", "", EXACT),
        ("if size == 0 or size % tile:", "if size % tile:", REFUSES),
        ("if k != b_k:", "if False:", REFUSES),
    ],
)
def test_they_fail_when_the_kernel_is_broken(alone, right, wrong, failing):
    module = alone / "fp16_128x128.py"
    text = module.read_text()
    assert right in text
    module.write_text(text.replace(right, wrong))
    done = run_tests(alone, "-x", "-k", failing)
    assert done.returncode == 1
    assert f"FAILED test_fp16_128x128.py::{failing}" in done.stdout


DEPTHS = {
    "looser": 'rtol = 0.25\natol = 0.5\ngpu_marker = "gpu"',
    "integers_only": 'inputs = ["integers"]',
    "normal_only": 'inputs = ["normal"]',
    "not_exact": "exact = false",
}


def test_every_depth_runs_in_parallel_and_markers_select(tmp_path):
    for name, depth in DEPTHS.items():
        text = f"[tile]\nm = 64\nn = 64\n[test]\n{depth}\n"
        rendered = render(plan(tmp_path, text, name), verified=False, prove=False)
        (tmp_path / f"{name}.py").write_text(rendered.source, "utf-8")
        (tmp_path / f"test_{name}.py").write_text(rendered.test_source, "utf-8")
    markers = ("-W", "error::pytest.PytestUnknownMarkWarning", "-o", "markers=gpu")
    # Of each kind of test on a CPU one size is enough.
    few = ("-k", "64-128-192 or 1088 or reference")
    done = run_tests(tmp_path, "-n", "2", "-m", "not gpu", *markers, *few)
    assert done.returncode == 0, done.stdout
    # looser: 3, and a size for the GPU that is left out; the others have it skipped.
    assert "10 passed, 3 skipped" in done.stdout

    strict = ("-o", "addopts=--strict-markers", "--collect-only")
    assert "'gpu' not found in `markers`" in run_tests(tmp_path, *strict).stdout
