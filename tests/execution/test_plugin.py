"""The example of the docs: a package that brings an operation, built and installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from oldest import newest_only

pytestmark = newest_only

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example_plugin"
pytest.importorskip("pip", reason="builds a package with pip")
pytest.importorskip("hatchling", reason="builds a package with hatchling")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A directory with the package, installed."""
    directory = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, directory / "source")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target"]
    places = [str(directory / "site"), str(directory / "source")]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *places],
        check=True,
        capture_output=True,
    )
    return directory / "site"


@pytest.fixture
def here(tmp_path):
    shutil.copytree(EXAMPLE / "specs", tmp_path / "specs")
    return tmp_path


def run(site, here, *command):
    path = os.pathsep.join(map(str, (ROOT, site, here / "generated")))
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=here,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "KGEN_CACHE_DIR": str(here / "cache"),
            "JAX_PLATFORMS": "cpu",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_spec_is_rendered_verified_and_checked(site, here):
    done = run(site, here, "kgen", "render")
    assert done.returncode == 0, done.stderr
    assert "rendered generated/halve.py (static " in done.stderr
    text = (here / "generated" / "halve.py").read_text("utf-8")
    assert "\nALPHA = 0.5\n" in text
    assert "# verified: static, lower, simulate.\n" in text
    assert "kgen" not in text.partition("import functools")[2]
    again = run(site, here, "kgen", "render")
    assert "static, lower, simulate: remembered" in again.stderr
    checked = run(site, here, "kgen", "render", "--check")
    assert (checked.returncode, checked.stderr) == (0, "2 files up to date.\n")
    tested = run(site, here, "pytest", "-q", "-p", "no:cacheprovider", "generated")
    assert tested.returncode == 0, tested.stdout


def test_its_own_reference_judges_the_kernel(site, here):
    template = here / "ours" / "scale.py.jinja"
    template.parent.mkdir()
    # The module's reference is as wrong as its kernel.
    template.write_text(
        '{% extends "scale/scale.py.jinja" %}\n{% block kernel %}\n'
        "{{ super() | replace('ALPHA * x', 'ALPHA * ALPHA * x') }}\n{% endblock %}\n"
    )
    done = run(site, here, "kgen", "render", "--templates", "ours")
    assert done.returncode == 4, done.stderr
    assert "halve is not verified: simulate failed" in done.stderr
    assert "elements are wrong" in done.stderr
    assert not (here / "generated").exists()


def test_a_spec_that_breaks_its_rules(site, here):
    with (here / "specs" / "halve.toml").open("a") as file:
        file.write("beta = 1\n\n[tile]\nm = 512\nn = 3\n")
    done = run(site, here, "kgen", "render")
    assert (done.returncode, done.stderr) == (
        3,
        "specs/halve.toml:7: KG003 unknown key scale.beta\n"
        "  allowed: alpha, dtype\n"
        "Found 1 problem.\n",
    )


def test_its_planner_finds_every_problem(site, here):
    with (here / "specs" / "halve.toml").open("a") as file:
        file.write("\n[tile]\nm = 512\nn = 3\n")
    done = run(site, here, "kgen", "render")
    assert (done.returncode, done.stderr) == (
        3,
        "specs/halve.toml:9: KG301 tile.m = 512 is more than a TMA box holds\n"
        "  allowed: at most 256\n"
        "specs/halve.toml:10: KG301 tile.n = 3 makes rows of 12 bytes\n"
        "  allowed: multiples of 16 bytes\n"
        "Found 2 problems.\n",
    )


def test_a_family_of_them(site, here):
    spec = here / "specs" / "halve.toml"
    text = spec.read_text().replace('"halve"', '"halve_{tile.n}"')
    spec.write_text(f"{text}\n[matrix]\ntile.n = [64, 128]\n")
    # The second is rendered in another process.
    made = run(site, here, "kgen", "render", "--no-verify", "-j", "2")
    assert (made.returncode, made.stderr.splitlines()[-1]) == (0, "2 modules rendered.")
    assert "TILE_M, TILE_N = 64, 64\n" in (here / "generated/halve_64.py").read_text()
    done = run(site, here, "kgen", "list")
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [
        ["halve_64", "scale", "-"],
        ["halve_128", "scale", "-"],
    ]


def test_it_is_vendored(site, here):
    vendored = run(site, here, "kgen", "vendor", "dest", "specs", "--no-verify")
    assert vendored.returncode == 0, vendored.stderr
    assert (here / "dest" / "tests" / "test_halve.py").is_file()
    checked = run(site, here, "kgen", "vendor", "--check", "dest", "--no-verify")
    assert (checked.returncode, checked.stderr) == (0, "3 files up to date.\n")


def test_what_changes_is_told(site, here):
    text = (here / "specs" / "halve.toml").read_text()
    (here / "specs" / "third.toml").write_text(text.replace("0.5", "0.25"))
    done = run(site, here, "kgen", "diff", "specs/halve.toml", "specs/third.toml")
    assert done.returncode == 1, done.stderr
    assert "\n  alpha: 0.5 -> 0.25  # The factor.\n" in done.stdout


def test_its_schema_and_its_plan_are_shown(site, here):
    schema = run(site, here, "kgen", "schema", "--op", "scale").stdout
    assert '"const": "scale"' in schema
    explained = run(site, here, "kgen", "explain", "specs/halve.toml").stdout
    assert "alpha   0.5" in explained
