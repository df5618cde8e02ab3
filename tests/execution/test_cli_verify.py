"""`kgen verify` on specs, on edited modules and on kernels that kgen did not write."""

import json
import shutil
import time
from pathlib import Path

import pytest
from commands import kgen
from oldest import newest_only

ROOT = Path(__file__).parents[2]
FOREIGN = Path(__file__).parent / "kernels" / "foreign.py"


@pytest.fixture
def edited(tmp_path):
    """Makes a one-line edit of a rendered module."""

    def edit(old, new, name="fp16_128x128"):
        path = tmp_path / f"{name}.py"
        text = (ROOT / "generated" / path.name).read_text("utf-8")
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new), "utf-8")
        return path

    return edit


def line_of(path, text):
    lines = path.read_text("utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


def test_a_forgotten_delay_release_is_told_with_both_lines_and_the_fix(edited):
    path = edited(", delay_release=DELAY_RELEASE", "")
    start = time.monotonic()
    done = kgen("verify", path)
    seconds = time.monotonic() - start
    assert done.exit_code == 4, done.stdout
    assert f"{path.name}:{line_of(path, 'plgpu.emit_pipeline(')}: " in done.stdout
    assert f"{path.name}:{line_of(path, 'plgpu.wgmma(acc')}: " in done.stdout
    assert "delay_release=1" in done.stdout
    assert f"({path.name}:{line_of(path, 'plgpu.BlockSpec(')})" in done.stdout
    assert "data race" in done.stdout
    # 3 s on an idle machine; the bound is for one that is not.
    assert seconds < 30


def test_the_module_as_it_is_passes():
    done = kgen("verify", ROOT / "generated" / "fp16_128x128.py", "--no-cache")
    assert (done.exit_code, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert first.startswith("passed  ")
    assert last == "1 verified."


@newest_only
def test_a_spec_is_rendered_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "specs" / "bf16_64x64.toml", tmp_path)
    done = kgen("verify", "bf16_64x64.toml", "--level", "lower", "--format", "json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    (result,) = document["results"]
    assert (document["passed"], result["target"]) == (
        True,
        "bf16_64x64.toml (bf16_64x64)",
    )
    assert [level["level"] for level in result["levels"]] == [
        "import",
        "static",
        "lower",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["bf16_64x64.toml"]


def test_a_syntax_error_and_a_missing_file_are_told(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("def f(:\n")
    done = kgen("verify", path)
    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr.startswith(f"error: {path}:1 is not Python: ")
    assert kgen("verify", tmp_path / "none.toml").exit_code == 5


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("jax_own", ("--shape", "64,128,192")),
        ("quickstart", ("--shape", "64,128,448", "--dtype", "bfloat16")),
        ("scaled", ("--shape", "float32[128,64]", "--reference", "doubled")),
    ],
)
def test_a_kernel_that_kgen_did_not_write_is_verified(function, options):
    done = kgen("verify", f"{FOREIGN}:{function}", *options)
    assert done.exit_code == 0, done.stdout
    assert done.stdout.startswith(f"passed  {FOREIGN}:{function}  ")
    assert "not compared" not in done.stdout


def test_a_race_of_a_kernel_that_kgen_did_not_write():
    target = f"{FOREIGN}:quickstart_with_a_race"
    done = kgen("verify", target, "--shape", "64,64,448")
    assert done.exit_code == 4
    assert "data race" in done.stdout
    assert "foreign.py:" in done.stdout
    assert "delay_release" in done.stdout


def test_a_function_is_compared_with_its_reference():
    done = kgen(
        *("verify", f"{FOREIGN}:scaled", "--reference", "tripled"),
        *("--shape", "float32[64,64]"),
    )
    assert done.exit_code == 4
    assert "elements are wrong" in done.stdout


def test_without_a_reference_the_numbers_are_not_compared():
    done = kgen("verify", f"{FOREIGN}:scaled", "--shape", "float32[64,64]")
    assert done.exit_code == 0, done.stdout
    assert "note: numerics not compared: " in done.stdout


def test_without_a_gpu_the_level_gpu_is_no_pass(tmp_path):
    done = kgen(
        *("verify", f"{FOREIGN}:scaled", "--shape", "float32[64,64]"),
        *("--level", "gpu", "--format", "json"),
    )
    levels = {
        each["level"]: each for each in json.loads(done.stdout)["results"][0]["levels"]
    }
    assert done.exit_code == 4
    assert levels["simulate"]["status"] == "passed"
    assert levels["gpu"]["status"] == "not_run"
    assert levels["gpu"]["detail"].startswith("not run on a gpu: ")


@pytest.mark.parametrize("shape", ["0,64,64", "64,64,0", "0,0,0"])
def test_a_product_of_nothing_proves_no_function(tmp_path, shape):
    path = tmp_path / "mine.py"
    path.write_text("def f(a, b):\n    return a @ b\n")
    done = kgen("verify", f"{path}:f", "--shape", shape)
    assert (done.exit_code, done.stdout, done.stderr) == (
        2,
        "",
        f"error: --shape {shape!r} is a product of nothing\n"
        "  allowed: M,N,K of 1 or more, such as 4096,4096,4096\n",
    )


@newest_only
def test_a_product_of_nothing_alone_proves_no_module():
    module = ROOT / "generated" / "bf16_128x256_any.py"
    zero, some = ("--shape", "0,64,64"), ("--shape", "8,16,24")
    done = kgen("verify", module, *zero, "--level", "static")
    assert done.exit_code == 4
    assert "every size is a product of nothing, of which no kernel runs" in done.stdout
    done = kgen("verify", module, *zero, *some, "--level", "static")
    assert done.exit_code == 0, done.stdout


def test_a_hanging_function_ends_within_its_limit(tmp_path):
    path = tmp_path / "hangs.py"
    path.write_text("def f(x):\n    while True:\n        pass\n")
    start = time.monotonic()
    done = kgen(*("verify", f"{path}:f", "--shape", "f32[64]"), *("--timeout", 8))
    assert done.exit_code == 4
    assert "no result within 8 s" in done.stdout
    assert "hangs.py:" in done.stdout
    assert time.monotonic() - start < 60


@newest_only
@pytest.mark.parametrize("shape", ["int32[64,128]", "float32[64,2,4]"])
def test_results_of_any_dtype_and_rank(shape):
    command = ("verify", f"{FOREIGN}:counted", "--shape", shape, "--reference")
    done = kgen(*command, "one_more")
    assert done.exit_code == 0, done.stdout
    done = kgen(*command, "two_more")
    assert done.exit_code == 4
    assert "elements are wrong, the first at [0" in done.stdout


@newest_only
def test_what_is_small_in_a_result_is_not_forgiven():
    shape = ("--shape", "float32[128,64]", "--reference", "plain_exponential")
    done = kgen("verify", f"{FOREIGN}:exponential", *shape)
    assert done.exit_code == 0, done.stdout
    done = kgen("verify", f"{FOREIGN}:cut_exponential", *shape)
    assert done.exit_code == 4
    assert "elements are wrong" in done.stdout
