"""Dispatch modules are proven together with the kernels beside them, and run with them."""

import dataclasses
import functools
import json
import shutil
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from alone import NO_KGEN, run_tests
from commands import kgen
from dispatched import write_dispatch
from jax.experimental.pallas import mosaic_gpu as plgpu
from oldest import newest_only

from kgen.emit.placement import PLAIN, Placement, place
from kgen.emit.render import render
from kgen.pipeline import request_of
from kgen.plan import make_plan
from kgen.spec.load import load_file
from kgen.verify import LOWER, STATIC, verify

GENERATED = Path(__file__).parents[2] / "generated"
DISABLED = [
    jax.export.DisabledSafetyCheck.custom_call(name)
    for name in ("mosaic_gpu", "mosaic_gpu_v2")
]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = write_dispatch(tmp_path_factory.mktemp("project") / "specs")
    (spec,) = load_file(path)
    return make_plan(spec)


@pytest.fixture
def shipped(monkeypatch):
    """The shipped module with two of its kernels' sizes."""
    monkeypatch.syspath_prepend(GENERATED)
    import matmul_h200

    return matmul_h200


def request(plan, placement=PLAIN):
    module = place(render(plan, verified=False, prove=False), placement)
    return request_of(plan, module, placement=placement)


@newest_only
def test_it_is_verified_with_its_kernels(plan):
    verdict = verify(request(plan), cache=False)
    assert verdict.passed, verdict.failure


@pytest.mark.parametrize(
    "placement",
    [
        Placement(package="far.away.kernels"),
        Placement(package="pluggy", vendored=True),  # Installed, too.
        Placement(package="far.away", relative_imports=True),
    ],
    ids=lambda placement: placement.package_of_modules,
)
def test_it_is_verified_as_it_is_placed(plan, placement):
    verdict = verify(request(plan, placement), levels=(STATIC, LOWER), cache=False)
    assert verdict.passed, verdict.failure


def test_a_table_with_another_kernel_is_found_by_its_smem(plan):
    asked = request(plan)
    table = '(1024, 512, 512): "gemm"'
    assert asked.source.count(table) == 1
    wrong = asked.source.replace(table, '(1024, 512, 512): "skinny"')
    verdict = verify(dataclasses.replace(asked, source=wrong), levels=(LOWER,))
    assert "m=1024, n=512, k=512: the lowered kernel asks for" in verdict.failure.detail


def test_a_kernel_that_is_missing(plan):
    asked = request(plan)
    texts = json.loads(asked.beside)
    del texts["skinny"]
    alone = dataclasses.replace(asked, beside=json.dumps(texts))
    verdict = verify(alone, levels=(LOWER,))
    assert verdict.failure.level == "import"
    assert "No module named 'skinny'" in verdict.failure.detail


@newest_only
def test_a_broken_kernel_beside_is_found(plan):
    asked = request(plan)
    texts = json.loads(asked.beside)
    assert texts["skinny"].count("lambda ki: (ki, n)") == 1
    texts["skinny"] = texts["skinny"].replace(
        "lambda ki: (ki, n)", "lambda ki: (ki, m)"
    )
    wrong = dataclasses.replace(asked, beside=json.dumps(texts))
    verdict = verify(wrong)
    assert verdict.failure.level == "simulate"


@newest_only
@pytest.mark.parametrize("package", ["", "mine.kernels"])
def test_verify_takes_the_kernels_beside_a_file(tmp_path, monkeypatch, package):
    monkeypatch.chdir(tmp_path)
    path = write_dispatch(Path("specs"))
    Path("kgen.toml").write_text(
        f'[vendor]\npackage = "{package}"\n' if package else ""
    )
    options = ("--no-verify", "-j", 1)
    assert kgen("vendor", "mine/kernels", path, *options).exit_code == 0
    outcome = kgen("verify", "mine/kernels/pick.py", "--level", "lower")
    assert (outcome.exit_code, outcome.stdout.splitlines()[-1]) == (0, "1 verified.")
    shutil.move("mine/kernels/skinny.py", "skinny.py")
    outcome = kgen("verify", "mine/kernels/pick.py", "--level", "lower")
    assert outcome.exit_code == 4
    assert "skinny" in outcome.stdout


def test_the_shipped_module_and_its_kernels_pass_their_test_alone(tmp_path):
    for path in GENERATED.glob("bf16_*.py"):
        shutil.copy(path, tmp_path)
    shutil.copy(GENERATED / "matmul_h200.py", tmp_path)
    shutil.copy(GENERATED / "tests" / "test_matmul_h200.py", tmp_path)
    (tmp_path / "kgen.py").write_text(NO_KGEN)
    done = run_tests(tmp_path)
    assert done.returncode == 0, done.stdout
    table = tmp_path / "matmul_h200.py"
    text = table.read_text()
    right = "lambda size: _distance(size, (m, n, k))"
    assert right in text
    table.write_text(text.replace(right, "lambda size: -_distance(size, (m, n, k))"))
    assert run_tests(tmp_path, "-x", "-k", "picks").returncode == 1


def test_it_can_be_mapped_jitted_and_exported(shipped):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape) for shape in ((2, 64, 64), (2, 64, 128)))
    expected = np.asarray(jnp.asarray(a @ b, jnp.bfloat16), np.float32)
    a, b = jnp.asarray(a, jnp.bfloat16), jnp.asarray(b, jnp.bfloat16)
    matmul = functools.partial(shipped.matmul, interpret=plgpu.InterpretGPUParams())
    mapped = jax.jit(jax.vmap(matmul))(a, b)
    np.testing.assert_array_equal(np.asarray(mapped, np.float32), expected)
    operands = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16)
        for shape in ((512, 4096), (4096, 4096))
    ]
    exported = jax.export.export(
        shipped.matmul, platforms=["cuda"], disabled_checks=DISABLED
    )(*operands)
    assert exported.out_avals[0].shape == (512, 4096)
    # The table is gone: one kernel is left.
    assert exported.mlir_module().count("custom_call @mosaic_gpu") == 1
