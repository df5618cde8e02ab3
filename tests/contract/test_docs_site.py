"""The docs are built as a site, without a warning."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.without_jax

ROOT = Path(__file__).resolve().parents[2]


def build(root, site):
    """Builds the docs of a checkout; returns the exit code and what mkdocs says.

    `--quiet` would hide warnings from `--strict`.
    """
    command = ["mkdocs", "build", "--strict", "--site-dir", site]
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_the_site_is_built_without_warnings(tmp_path):
    code, told = build(ROOT, tmp_path)
    assert code == 0, told
    assert not [line for line in told.splitlines() if not line.startswith("INFO ")]
    pages = {p.stem for p in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= {p.parent.name for p in tmp_path.glob("*/index.html")}
    assert not (tmp_path / "site_links.py").exists()


def test_links_that_leave_the_site_become_paths(tmp_path):
    assert build(ROOT, tmp_path)[0] == 0
    faults = (tmp_path / "mutations" / "index.html").read_text("utf-8")
    assert "<code>tests/mutants</code>" in faults
    plugins = (tmp_path / "plugins" / "index.html").read_text("utf-8")
    assert "<code>docs/example_plugin</code>" in plugins
    # A file below docs/ is part of the site.
    assert '<a href="../example_plugin/pyproject.toml">' in plugins
    assert (tmp_path / "example_plugin" / "pyproject.toml").is_file()


def test_a_link_to_nothing_is_an_error(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "tests" / "mutants").mkdir(parents=True)
    with (tmp_path / "docs" / "index.md").open("a") as file:
        file.write("\n[a](gone.md) [b](gone) [c](../tests/gone) [d](spec.md#gone)\n")
    code, told = build(tmp_path, tmp_path / "site")
    assert code == 1
    for target in ("gone.md", "gone", "../tests/gone", "spec.md#gone"):
        assert f"'{target}'" in told
