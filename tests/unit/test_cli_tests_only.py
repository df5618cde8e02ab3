"""`kgen render --tests-only` and `--tracked`."""

import subprocess
from pathlib import Path

import pytest
from commands import kgen

pytestmark = pytest.mark.without_jax

SPEC = '[kernel]\nname = "small"\nop = "matmul"\n[tile]\nm = 64\nn = 64\n'
MODULE = Path("generated/small.py")
TEST = Path("generated/tests/test_small.py")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_spec()
    assert render("-q").exit_code == 0
    return tmp_path


def write_spec(more=""):
    Path("specs").mkdir(exist_ok=True)
    Path("specs/small.toml").write_text(SPEC + more)


def render(*options):
    return kgen("render", "--no-verify", *options)


def test_the_depth_of_a_test_leaves_the_module_as_it_is(here):
    before = MODULE.read_bytes()
    write_spec('[test]\nrtol = 0.25\ngpu_marker = "gpu"\n')
    outcome = render("--tests-only")
    assert outcome.exit_code == 0
    assert outcome.stderr == f"rendered {TEST}\n1 test rendered.\n"
    assert MODULE.read_bytes() == before
    assert "0.25 * np.abs(expected)" in TEST.read_text()
    assert render("--check").exit_code == 0


def test_a_missing_test_is_made_and_a_right_one_left(here):
    TEST.unlink()
    assert render("--tests-only", "-q").exit_code == 0
    outcome = render("--tests-only")
    assert outcome.stderr == f"unchanged {TEST}\n1 test unchanged.\n"


def test_an_edited_test_is_kept(here):
    TEST.write_text(TEST.read_text().replace("SHAPES[:1]", "SHAPES"))
    outcome = render("--tests-only")
    assert outcome.exit_code == 5
    assert f"{TEST} was edited since kgen wrote it" in outcome.stderr
    assert render("--tests-only", "--force").exit_code == 0
    assert "SHAPES[:1]" in TEST.read_text()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (MODULE.unlink, "is missing"),
        (
            lambda: write_spec("[test]\nshapes = [[64, 64, 64]]\n"),
            "is not what its spec yields: its spec changed",
        ),
        (
            lambda: MODULE.write_text(MODULE.read_text() + "X = 1\n"),
            "was edited since kgen wrote it",
        ),
        (lambda: MODULE.write_text("mine\n"), "was not written by kgen"),
    ],
)
def test_a_test_is_not_written_beside_another_module(here, change, why):
    TEST.unlink()
    change()
    outcome = render("--tests-only")
    assert outcome.exit_code == 5
    assert outcome.stderr == (
        f"error: {MODULE} {why}; its test was not written\n"
        "  hint: render both, without --tests-only\n1 test not written.\n"
    )
    assert not TEST.exists()


def test_an_unverified_module_gets_no_verified_test(here):
    outcome = kgen("render", "--tests-only")
    assert outcome.exit_code == 5
    assert f"{MODULE} is not what its spec yields: it is unverified" in outcome.stderr


@pytest.mark.parametrize("option", ["--check", "--diff", "--stdout"])
def test_tests_only_writes(option):
    outcome = kgen("render", "--tests-only", option)
    assert outcome.exit_code == 2
    assert "--tests-only goes with neither --check, --diff nor --stdout." in (
        outcome.stderr
    )


def git(*arguments):
    subprocess.run(["git", *arguments], check=True)


def test_files_that_git_does_not_know_are_told(here):
    git("init", "-q")
    git("add", "specs", TEST)
    outcome = render("--check", "--tracked")
    assert outcome.exit_code == 1
    assert outcome.stderr == (
        f"untracked {MODULE} (git add it)\n1 file untracked, 2 up to date.\n"
    )
    git("add", MODULE)
    assert render("--check", "--tracked").exit_code == 0


@pytest.mark.parametrize("options", [(), ("--tests-only",)])
def test_rendering_tells_what_is_untracked_too(here, options):
    git("init", "-q")
    outcome = render("--tracked", *options)
    assert outcome.exit_code == 1
    assert f"untracked {TEST} (git add it)" in outcome.stderr
    git("add", "generated")
    assert render("--tracked", *options).exit_code == 0


def test_files_are_found_from_another_directory(here, monkeypatch):
    git("init", "-q")
    git("add", "generated")
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    outcome = render("../specs", "--out", "../generated", "--check", "--tracked")
    assert (outcome.exit_code, outcome.stderr) == (0, "2 files up to date.\n")


def test_tracked_needs_a_repository(here, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(here.parent))
    outcome = render("--check", "--tracked")
    assert outcome.exit_code == 2
    assert "--tracked: fatal: not a git repository" in outcome.stderr


def test_tracked_needs_git(here, monkeypatch):
    monkeypatch.setenv("PATH", "")
    outcome = render("--check", "--tracked")
    assert outcome.exit_code == 2
    assert "--tracked: git cannot be run: No such file" in outcome.stderr
