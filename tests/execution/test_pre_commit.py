"""The hooks for pre-commit, in a repository that has them: what they block and what not.

The same entries as in .pre-commit-hooks.yaml, but run by this Python: as `language:
python` pre-commit would install kgen from the network.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import kgen
from oldest import newest_only

pytestmark = newest_only

MANIFEST = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
SPEC = '[kernel]\nname = "{name}"\nop = "matmul"\n[tile]\nm = 64\nn = {n}\n'
IDENTITY = ("-c", "user.name=n", "-c", "user.email=e@example.org")


def local_hook(hook):
    command = hook["entry"].removeprefix("kgen ")
    local = {"entry": f"{sys.executable} -m kgen {command}", "language": "system"}
    return {**hook, **local, "args": ["--no-verify"]}


def run(*command, skip=""):
    done = subprocess.run(
        command,
        env={**os.environ, "SKIP": skip},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def pre_commit(*arguments):
    code, told = run(sys.executable, "-m", "pre_commit", *arguments)
    assert code == 0, told


def git(*arguments):
    code, told = run("git", *arguments)
    assert code == 0, told


def commit(skip=""):
    """Commits what is staged; returns what the hooks say if they block it."""
    code, told = run("git", *IDENTITY, "commit", "-q", "-m", "change", skip=skip)
    return told if code else None


def settle():
    """Commits the specs and what they yield, past the hooks."""
    assert kgen("render", "--no-verify", "-q").exit_code == 0
    git("add", "specs", "generated")
    git(*IDENTITY, "commit", "-q", "-m", "settled", "--no-verify")


def write_spec(name, n=64):
    Path("specs").mkdir(exist_ok=True)
    Path(f"specs/{name}.toml").write_text(SPEC.format(name=name, n=n))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A repository with both hooks and a spec, which is staged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    # Hooks of the user's own would be in the way.
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    git("init", "-q")
    hooks = [local_hook(hook) for hook in yaml.safe_load(MANIFEST.read_text())]
    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    Path(".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    pre_commit("install")
    write_spec("small")
    git("add", "specs", ".pre-commit-config.yaml")
    return tmp_path


def test_the_manifest_is_valid():
    pre_commit("validate-manifest", str(MANIFEST))


def test_a_kernel_must_be_committed_with_its_spec(here):
    told = commit()
    assert told is not None
    assert "rendered generated/small.py (unverified)" in told
    assert "untracked generated/tests/test_small.py (git add it)" in told

    git("add", "generated")
    assert commit() is None

    # What the hook renders anew is not part of the commit yet.
    write_spec("small", n=128)
    git("add", "specs")
    told = commit()
    assert told is not None
    assert "files were modified by this hook" in told
    git("add", "generated")
    assert commit() is None
    assert (
        "TILE_N, TILE_K = 64, 128, 64"
        in run("git", "show", "HEAD:generated/small.py")[1]
    )


def test_the_check_alone_blocks_what_is_stale(here):
    settle()
    write_spec("small", n=128)
    git("add", "specs")
    told = commit(skip="kgen-render")
    assert told is not None
    assert "differs generated/small.py (its spec changed)" in told

    # The right module in the working directory does not help if it is not staged.
    assert kgen("render", "--no-verify", "-q").exit_code == 0
    assert commit(skip="kgen-render") is not None
    git("add", "generated")
    assert commit(skip="kgen-render") is None


def test_a_removed_spec_is_noticed(here):
    write_spec("other")
    settle()
    git("rm", "-q", "specs/other.toml")
    told = commit()
    assert told is not None
    assert "orphaned generated/other.py (no given spec makes it)" in told
    git("rm", "-q", "generated/other.py", "generated/tests/test_other.py")
    assert commit() is None
