"""action.yml: well formed, and its scripts do what they should, run as GitHub does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import kgen
from oldest import newest_only

pytestmark = newest_only

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
INPUT = re.compile(r"inputs\.([\w-]+)")
KNOWN = re.compile(
    r"(inputs\.[\w-]+|github\.action_path|steps\.python\.outputs\.python-path"
    r"|!cancelled\(\)|'none'|''|&&|\|\||!=|=="
    r"|format\('\{0\} \{1\}', inputs\.[\w-]+, inputs\.[\w-]+\)|\s)*"
)
KERNEL = "bf16_64x64"


def texts(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


def test_it_is_a_composite_action():
    assert set(ACTION) == {"name", "description", "inputs", "runs"}
    assert ACTION["runs"]["using"] == "composite"
    for name, told in ACTION["inputs"].items():
        assert set(told) == {"description", "default"}, name
        assert isinstance(told["default"], str), name
    for name, step in STEPS.items():
        assert ("run" in step) == ("shell" in step), name
        assert ("run" in step) != ("uses" in step), name
        assert set(step) <= {
            *("name", "id", "if", "uses", "with"),
            *("shell", "env", "run", "working-directory"),
        }, name
        assert step.get("id", "python") == "python"


def test_every_input_is_declared_and_used():
    expressions = [
        e for text in texts(ACTION["runs"]) for e in EXPRESSION.findall(text)
    ]
    assert all(KNOWN.fullmatch(expression) for expression in expressions), expressions
    used = {name for expression in expressions for name in INPUT.findall(expression)}
    assert used == set(ACTION["inputs"])


def test_no_input_becomes_part_of_a_script():
    for step in STEPS.values():
        assert EXPRESSION.search(step.get("run", "")) is None


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """A checkout with one kernel of the catalogue, and where the runner keeps things."""
    checkout = tmp_path / "checkout"
    for directory in ("specs", "generated/tests"):
        (checkout / directory).mkdir(parents=True)
    for name in (
        f"specs/{KERNEL}.toml",
        f"generated/{KERNEL}.py",
        f"generated/tests/test_{KERNEL}.py",
    ):
        shutil.copy(ROOT / name, checkout / name)
    executable = tmp_path / "temp" / "kgen" / "bin" / "kgen"
    executable.parent.mkdir(parents=True)
    executable.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kgen "$@"\n')
    executable.chmod(0o755)
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path / "temp"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(checkout))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path


def run(name, **environment):
    """Runs the script of a step; returns its exit code and annotations."""
    step = STEPS[name]
    assert set(step["env"]) == set(environment)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert "Traceback" not in done.stderr
    return done.returncode, [line for line in lines if line.startswith("::")]


def test_a_right_kernel_passes(runner):
    assert run("Check", KGEN_SPECS="", KGEN_OUT="") == (0, [])
    assert run("Verify", KGEN_TARGETS="specs generated", KGEN_LEVEL="static") == (0, [])
    summary = (runner / "summary.md").read_text("utf-8")
    assert summary == (
        "## kgen render --check\n\n2 files up to date.\n\n"
        "## kgen verify\n\n"
        "| kernel | static |\n| --- | --- |\n"
        f"| `specs/{KERNEL}.toml ({KERNEL})` | passed |\n"
        f"| `generated/{KERNEL}.py` | passed |\n\n"
        "2 verified.\n\n"
    )


def test_a_broken_kernel_is_annotated_where_it_races(runner):
    module = Path(f"generated/{KERNEL}.py")
    text = module.read_text("utf-8")
    module.write_text(text.replace("DELAY_RELEASE = 1", "DELAY_RELEASE = 0"), "utf-8")
    lines = module.read_text("utf-8").split("\n")
    edited, product = (
        next(number for number, line in enumerate(lines, 1) if words in line)
        for words in ("DELAY_RELEASE = 0", "plgpu.wgmma(")
    )

    code, told = run("Check", KGEN_SPECS="specs", KGEN_OUT="generated")
    assert code == 1
    assert told == [
        f"::error file={module},line={edited},title=kgen%3A edited"
        f"::{module}: it was edited since kgen wrote it"
    ]

    code, (told,) = run("Verify", KGEN_TARGETS="generated", KGEN_LEVEL="simulate")
    assert code == 4
    assert told.startswith(
        f"::error file={module},line={product},title=kgen%3A simulate failed"
        f"::{module}%0A"
    )
    assert "data race on slot" in told
    summary = (runner / "summary.md").read_text("utf-8")
    assert f"| `{module}` | edited | it was edited since kgen wrote it |" in summary
    assert f"| `{module}` | passed | passed | **failed** |" in summary
    assert "1 failed." in summary


def test_an_invalid_spec_is_annotated_by_both(runner):
    spec = Path(f"specs/{KERNEL}.toml")
    spec.write_text(spec.read_text("utf-8") + "\n[pipeline\n", "utf-8")
    for name, environment in {
        "Check": {"KGEN_SPECS": "", "KGEN_OUT": ""},
        "Verify": {"KGEN_TARGETS": "", "KGEN_LEVEL": "static"},
    }.items():
        code, (told,) = run(name, **environment)
        assert code == 3
        assert told.startswith(f"::error file={spec},line=")
        assert "title=kgen%3A KG001::" in told


def test_vendored_kernels_are_checked_and_proven(runner):
    for place in ("one", "two"):
        assert kgen("vendor", place, "--no-verify", "-q").exit_code == 0
    module = Path(f"one/{KERNEL}.py")
    module.write_text(module.read_text("utf-8") + "# mine\n", "utf-8")
    Path(f"two/tests/test_{KERNEL}.py").unlink()
    # As in a repository that owns no specs.
    shutil.rmtree("specs")
    shutil.rmtree("generated")

    code, told = run("Check vendored", KGEN_VENDORED="one two")
    assert code == 1
    assert told == [
        f"::error file={module},line=1,title=kgen%3A edited"
        f"::{module}: it is not what kgen.lock says",
        f"::error file=two/tests/test_{KERNEL}.py,line=1,title=kgen%3A missing"
        f"::two/tests/test_{KERNEL}.py: it was deleted",
    ]
    summary = (runner / "summary.md").read_text("utf-8")
    assert "## kgen vendor --check one\n" in summary
    assert "## kgen vendor --check two\n" in summary
    assert run("Verify", KGEN_TARGETS=" one two", KGEN_LEVEL="static") == (0, [])


def test_specs_are_not_checked_where_only_vendored_kernels_are():
    assert STEPS["Check"]["if"] == (
        "${{ inputs.vendored == '' || inputs.specs != '' || inputs.out != '' }}"
    )


def test_names_are_neither_options_nor_patterns(runner):
    code, (told,) = run("Check", KGEN_SPECS="--out=x *", KGEN_OUT="")
    assert code == 5
    assert "--out=x" in told
    assert not Path("x").exists()
