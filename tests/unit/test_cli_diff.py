"""`kgen diff`: what it tells of two specs, or of a module and its spec."""

import json
from pathlib import Path

import pytest
from commands import kgen

pytestmark = pytest.mark.without_jax

SPEC = '[kernel]\nname = "{name}"\nop = "matmul"\n'


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spec(name, text="", directory="specs"):
    Path(directory).mkdir(exist_ok=True)
    path = Path(directory, f"{name}.toml")
    path.write_text(SPEC.replace("{name}", name) + text)
    return path


def test_specs_that_say_the_same():
    a = spec("gemm", "\n[tile]\nm = 128\n")
    b = spec("gemm", "# Another place, another layout.\n", "others")
    outcome = kgen("diff", a, b)
    assert (outcome.exit_code, outcome.stdout) == (
        0,
        "specs/gemm.toml (gemm) -> others/gemm.toml (gemm): no difference\n",
    )


def test_figures_are_told_in_words_and_the_text_as_a_diff():
    a, b = spec("gemm"), spec("gemm", "\n[tile]\nn = 64\n", "others")
    outcome = kgen("diff", a, b)
    assert outcome.exit_code == 1
    lines = outcome.stdout.splitlines()
    assert lines[:3] == [
        "specs/gemm.toml (gemm) -> others/gemm.toml (gemm): 9 figures of the plan"
        " changed",
        "  tile_n: 128 -> 64  # Columns of the CTA's output tile.",
        "  wg_n: 128 -> 64  # Columns of the same.",
    ]
    assert (
        "  smem.buffers.b_smem.bytes: 65,536 -> 32,768  # Bytes taken, rounded up as "
        "Mosaic GPU does." in lines
    )
    assert "-TILE_M, TILE_N, TILE_K = 128, 128, 64" in lines
    assert "+TILE_M, TILE_N, TILE_K = 128, 64, 64" in lines


def test_json_has_all_of_it():
    a, b = spec("gemm"), spec("gemm", "\n[pipeline]\ndelay_release = 2\n", "others")
    outcome = kgen("diff", a, b, "--format", "json")
    (difference,) = json.loads(outcome.stdout)["differences"]
    assert outcome.exit_code == 1
    assert difference["equal"] is False
    assert difference["plan"] == [
        {
            "field": "delay_release",
            "a": 1,
            "b": 2,
            "about": "Steps after which a slot is released.",
        }
    ]
    assert "+DELAY_RELEASE = 2\n" in difference["text"]
    assert difference["test"] == ""


def test_variants_are_matched_by_name():
    matrix = "\n[matrix]\ntile.n = {values}\n"
    a = spec("gemm_{tile.n}", matrix.replace("{values}", "[64, 128]"))
    b = spec("gemm_{tile.n}", matrix.replace("{values}", "[128, 192]"), "others")
    outcome = kgen("diff", a, b)
    assert outcome.exit_code == 1
    assert outcome.stdout == (
        f"{a} (gemm_128) -> {b} (gemm_128): no difference\n\n"
        f"gemm_64 is in {a} alone\n\ngemm_192 is in {b} alone\n"
    )


class TestModule:
    @pytest.fixture(autouse=True)
    def rendered(self):
        spec("gemm")
        kgen("render", "--no-verify")

    def test_one_that_is_up_to_date(self):
        outcome = kgen("diff", "generated/gemm.py", "specs/gemm.toml")
        assert (outcome.exit_code, outcome.stdout) == (
            0,
            "generated/gemm.py -> specs/gemm.toml (gemm): no difference\n",
        )

    def test_one_of_another_kgen(self):
        path = Path("generated/gemm.py")
        text = path.read_text().replace("by kgen ", "by kgen 0.0.")
        text = text.replace("MAX_CONCURRENT_STEPS = 4", "MAX_CONCURRENT_STEPS = 3")
        path.write_text(text)
        outcome = kgen("diff", "generated/gemm.py", "specs/gemm.toml")
        lines = outcome.stdout.splitlines()
        assert outcome.exit_code == 1
        assert lines[0].startswith(
            "generated/gemm.py -> specs/gemm.toml (gemm): 1 figure of the plan changed "
            "(written by kgen 0.0."
        )
        assert lines[1] == "  MAX_CONCURRENT_STEPS: 3 -> 4"
        assert "-MAX_CONCURRENT_STEPS = 3" in lines
        backwards = kgen("diff", "specs/gemm.toml", "generated/gemm.py")
        assert "  MAX_CONCURRENT_STEPS: 4 -> 3" in backwards.stdout.splitlines()

    def test_two_of_them(self):
        outcome = kgen("diff", "generated/gemm.py", "generated/gemm.py")
        assert (outcome.exit_code, outcome.stderr) == (
            2,
            "error: two modules are given; their plans are not known\n"
            "  hint: give the spec of one of them, or use diff\n",
        )

    def test_one_that_no_variant_makes(self):
        b = spec("gemm_{tile.n}", "\n[matrix]\ntile.n = [64, 128]\n")
        outcome = kgen("diff", "generated/gemm.py", b)
        assert (outcome.exit_code, outcome.stderr) == (
            2,
            f"error: no variant of {b} is called gemm, as generated/gemm.py is\n"
            "  allowed: gemm_64, gemm_128\n",
        )

    def test_one_that_is_no_python(self):
        Path("generated/gemm.py").write_text("<<<<<<< ours\n")
        outcome = kgen("diff", "generated/gemm.py", "specs/gemm.toml")
        assert outcome.exit_code == 1
        assert "-<<<<<<< ours" in outcome.stdout.splitlines()


def test_a_file_that_is_missing():
    outcome = kgen("diff", spec("gemm"), "none.py")
    assert (outcome.exit_code, outcome.stderr) == (
        5,
        "error: none.py cannot be read: No such file or directory\n",
    )


def test_a_vendored_module_is_as_its_repository_wants_it():
    Path(".git").mkdir()
    Path("kgen.toml").write_text('[vendor]\npackage = "my.lib"\nheader = "Ours"\n')
    path = spec("gemm")
    assert kgen("vendor", "--no-verify", "dest", path).exit_code == 0
    outcome = kgen("diff", "dest/gemm.py", path)
    assert (outcome.exit_code, outcome.stdout) == (
        0,
        "dest/gemm.py -> specs/gemm.toml (gemm): no difference\n",
    )
