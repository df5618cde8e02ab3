"""A story: kernels are vendored into an empty repository, and kept honest there.

Every step goes on where the one before has ended, so this is one test. Only the first
step verifies a kernel.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from oldest import newest_only

from kgen.resources import templates_dir

pytestmark = newest_only

ROOT = Path(__file__).resolve().parents[2]
SPEC = """
[kernel]
name = "small"
op = "matmul"
[tile]
m = 64
n = 64
[pipeline]
max_concurrent_steps = 2
"""
PROJECT = """
templates = ["templates"]

[vendor]
relative_imports = true
header = "Copyright 2026 The Library"
specs = true
"""
KERNELS = "src/mylib/kernels"
HOOKS = f"""
repos:
  - repo: local
    hooks:
      - id: kgen-check
        name: kgen vendor --check
        entry: {sys.executable} -m kgen vendor --check {KERNELS} --no-verify
        language: system
        always_run: true
        pass_filenames: false
"""


class Repository:
    """A git repository in which commands are run."""

    def __init__(self, path):
        self.path = path
        self.path.mkdir()
        self.git("init", "--quiet")

    def run(self, command, **environment):
        without = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        return subprocess.run(
            command,
            cwd=self.path,
            env={**without, "JAX_PLATFORMS": "cpu", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )

    def git(self, *arguments):
        author = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        done = self.run(["git", *author, *arguments])
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Update kernels")
        assert self.git("status", "--short") == ""

    def kgen(self, *arguments):
        """The exit code, stdout, and the lines of stderr."""
        program = "from kgen.cli import main; main()"
        done = self.run(
            [sys.executable, "-c", program, *arguments], PYTHONPATH=str(ROOT)
        )
        return done.returncode, done.stdout, done.stderr.splitlines()

    def check(self):
        """The exit code of --check, its diff, and what it tells of files."""
        code, diff, lines = self.kgen("vendor", "--check", KERNELS, "--no-verify")
        return code, diff, [line for line in lines if f" {KERNELS}/" in line]

    def update(self, *options):
        return self.kgen("vendor", "--update", KERNELS, "--no-verify", *options)[0]

    def __truediv__(self, name):
        return self.path / KERNELS / name


def test_a_story(tmp_path):
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "small.toml").write_text(SPEC)
    repository = Repository(tmp_path / "repository")
    _vendor(repository, specs)
    _plain_pytest(repository)
    _hand_edit(repository)
    _template_change(repository)
    _renamed_spec(repository)
    _deleted_file(repository)
    _stale_commit(repository)


def _vendor(repository, specs):
    """Into an empty repository."""
    (repository.path / "kgen.toml").write_text(PROJECT)
    shutil.copytree(templates_dir(), repository.path / "templates")
    code, _, lines = repository.kgen("vendor", KERNELS, str(specs))
    assert code == 0, lines
    assert lines[0].startswith(f"rendered {KERNELS}/small.py (static")
    files = [p for p in (repository.path / KERNELS).rglob("*") if p.is_file()]
    assert sorted(str(p.relative_to(repository.path / KERNELS)) for p in files) == [
        "__init__.py",
        "kgen.lock",
        "small.py",
        "specs/small.toml",
        "tests/__init__.py",
        "tests/test_small.py",
    ]
    code, diff, lines = repository.kgen("vendor", "--check", KERNELS)
    assert (code, diff, lines) == (0, "", ["6 files up to date."])
    # The rest of the story does without verification.
    assert repository.update() == 0
    repository.commit()


def _plain_pytest(repository):
    """Passes where kgen cannot be imported."""
    blocked = repository.path.parent / "blocked"
    blocked.mkdir()
    (blocked / "kgen.py").write_text('raise ImportError("kgen is not here")\n')
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = repository.run([*pytest, "--collect-only"], PYTHONPATH=str(blocked))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_small.py::test_exact_on_integers[64-128-192]" in done.stdout
    done = repository.run(
        [*pytest, "-k", "exact_on_integers and 64-128-192 or refuses"],
        PYTHONPATH=str(blocked),
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def _hand_edit(repository):
    """Is told with its diff, kept, and overwritten only by force."""
    module = repository / "small.py"
    good = module.read_text()
    bad = good.replace("num_steps=k // TILE_K", "num_steps=1")
    assert bad != good
    module.write_text(bad)
    code, diff, lines = repository.check()
    assert (code, lines) == (
        1,
        [f"edited {KERNELS}/small.py (it was edited since kgen wrote it)"],
    )
    changed = [line for line in diff.splitlines() if line.startswith(("-  ", "+  "))]
    assert [line[0] for line in changed] == ["-", "+"]
    assert "num_steps=1" in changed[1]
    assert repository.update() == 1
    assert module.read_text() == bad
    assert repository.update("--force") == 0
    assert module.read_text() == good
    assert repository.check() == (0, "", [])


def _template_change(repository):
    """Makes what comes from the template stale."""
    template = repository.path / "templates" / "matmul.py.jinja"
    before = template.read_text()
    template.write_text(before.replace("CUDA launches", "CUDA starts"))
    assert template.read_text() != before
    assert repository.check() == (
        1,
        "",
        [
            f"stale {KERNELS}/small.py (its template changed)",
        ],
    )
    assert repository.update() == 0
    assert "CUDA starts" in (repository / "small.py").read_text()
    assert repository.check() == (0, "", [])
    repository.commit()


def _renamed_spec(repository):
    """Leaves orphans, which nobody touched: --update removes them."""
    spec = repository / "specs/small.toml"
    spec.write_text(spec.read_text().replace('"small"', '"tiny"'))
    spec = spec.rename(spec.with_name("tiny.toml"))
    assert repository.check() == (
        1,
        "",
        [
            f"missing {KERNELS}/tiny.py (its spec specs/tiny.toml is new)",
            f"missing {KERNELS}/tests/test_tiny.py (its spec specs/tiny.toml is new)",
            f"orphaned {KERNELS}/small.py (its spec specs/small.toml is gone)",
            f"orphaned {KERNELS}/tests/test_small.py"
            " (its spec specs/small.toml is gone)",
        ],
    )
    assert repository.update() == 0
    assert repository.check() == (0, "", [])
    assert not (repository / "small.py").exists()
    assert "from .. import tiny" in (repository / "tests/test_tiny.py").read_text()
    repository.commit()


def _deleted_file(repository):
    (repository / "tests/test_tiny.py").unlink()
    line = f"missing {KERNELS}/tests/test_tiny.py (it was deleted)"
    assert repository.check() == (1, "", [line])
    assert repository.update() == 0
    assert repository.check() == (0, "", [])
    assert repository.git("status", "--short") == ""


def _stale_commit(repository):
    """Is blocked by pre-commit, which says why, until the kernel is updated."""

    def commit():
        repository.git("add", "--all")
        author = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        done = repository.run(
            ["git", *author, "commit", "--message", "Change a spec"],
            PYTHONPATH=str(ROOT),
        )
        return done.returncode, done.stdout + done.stderr

    (repository.path / ".pre-commit-config.yaml").write_text(HOOKS)
    done = repository.run([sys.executable, "-m", "pre_commit", "install"])
    assert done.returncode == 0, done.stdout + done.stderr
    code, told = commit()
    assert code == 0, told
    spec = repository / "specs/tiny.toml"
    spec.write_text(spec.read_text().replace("n = 64", "n = 128"))
    code, told = commit()
    assert code == 1
    assert f"stale {KERNELS}/tiny.py (its spec changed)\n" in told
    assert f"hint: kgen vendor --update {KERNELS} --no-verify\n" in told
    assert repository.update() == 0
    code, told = commit()
    assert code == 0, told
    assert repository.git("status", "--short") == ""
