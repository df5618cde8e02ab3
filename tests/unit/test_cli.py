"""The command line as a whole: help, version, errors, start-up."""

import ast
import errno
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from commands import kgen

from kgen import cli
from kgen.errors import ExitCode, FileError, KgenError

ROOT = Path(__file__).resolve().parents[2]


def run(*command, **variables):
    """Runs a command; returns its exit code, stdout and stderr."""
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        check=False,
        cwd=ROOT,
    )
    return result.returncode, result.stdout, result.stderr


def python(*arguments, **variables):
    return run(sys.executable, *arguments, **variables)


@pytest.fixture
def command(monkeypatch):
    """Makes `kgen list` do what the test says."""

    def replace(body):
        replacement = click.Command("list", callback=body)
        monkeypatch.setattr("kgen.cli.list.command", replacement)

    return replace


def test_version():
    assert python("-m", "kgen", "--version") == (0, "kgen 0.1.0\n", "")


def test_help_loads_no_stage_and_no_heavy_library():
    code = (
        "import sys\n"
        "from kgen.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    loaded = {name for name in sys.modules if name.startswith('kgen')}\n"
        "    heavy = {'jax', 'numpy', 'black', 'pydantic', 'jinja2', 'rich'}\n"
        "    print('loaded', sorted(loaded | (heavy & sys.modules.keys())))\n"
    )
    _, stdout, _ = python("-c", code, "--help")
    assert (
        stdout.splitlines()[-1]
        == "loaded ['kgen', 'kgen.cli', 'kgen.errors', 'kgen.streams']"
    )


def test_help_names_every_command_and_exit_code():
    stdout = kgen("--help").stdout
    for name in cli.COMMANDS:
        assert re.search(rf"^  {name} +\S", stdout, re.MULTILINE)
    for code in (*ExitCode, cli.INTERNAL_ERROR, cli.INTERRUPTED):
        assert re.search(rf"^    {code:d} +\S", stdout, re.MULTILINE)
    assert "\n    141 " in stdout or " 141 " in stdout


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name):
    outcome = kgen(name, "--help")
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith(f"Usage: kgen {name} ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rendr", "Error: No such command 'rendr'. Did you mean 'render'?"),
        ("xyz", "Error: No such command 'xyz'."),
    ],
)
def test_unknown_commands(name, message):
    outcome = kgen(name)
    assert outcome.exit_code == 2
    assert outcome.stderr.splitlines()[-1] == message


def test_unknown_options():
    outcome = kgen("--colour")
    assert outcome.exit_code == 2
    assert outcome.stderr.splitlines()[-1].startswith("Error: No such option")


class TestErrors:
    def test_an_expected_one(self, command):
        def fail():
            raise FileError("x.toml: no such file\n  hint: make one")

        command(fail)
        outcome = kgen("list")
        assert (outcome.exit_code, outcome.stderr) == (
            5,
            "error: x.toml: no such file\n  hint: make one\n",
        )

    @pytest.mark.parametrize("code", list(ExitCode))
    def test_each_exit_code(self, command, code):
        class OurError(KgenError):
            exit_code = code

        def fail():
            raise OurError("text")

        command(fail)
        assert kgen("list").exit_code == code

    def test_an_interrupt(self, command):
        def fail():
            raise KeyboardInterrupt

        command(fail)
        outcome = kgen("list")
        assert (outcome.exit_code, outcome.stderr) == (130, "interrupted\n")

    def test_an_operating_system_error(self, command):
        def fail():
            Path("/nowhere/x").read_text()

        command(fail)
        outcome = kgen("list")
        assert (outcome.exit_code, outcome.stderr) == (
            5,
            "error: [Errno 2] No such file or directory: '/nowhere/x'\n",
        )

    def test_a_fault_of_kgen(self, command, monkeypatch):
        def fail():
            raise AssertionError("oops")

        command(fail)
        outcome = kgen("list")
        expected = (
            "error: kgen failed unexpectedly: AssertionError: oops\n"
            "  hint: please report this; KGEN_DEBUG=1 shows where it happened\n"
        )
        assert (outcome.exit_code, outcome.stderr) == (70, expected)
        monkeypatch.setenv("KGEN_DEBUG", "1")
        outcome = kgen("list")
        assert outcome.stderr.startswith("Traceback (most recent call last):\n")
        assert outcome.stderr.endswith("AssertionError: oops\n" + expected)

    def test_a_reader_that_goes_away_is_no_error(self, command):
        def fail():
            raise BrokenPipeError

        command(fail)
        outcome = kgen("list")
        assert (outcome.exit_code, outcome.stderr) == (141, "")


class TestOldPython:
    def test_the_first_module_can_be_read_by_one(self):
        source = (ROOT / "kgen/cli/__init__.py").read_text()
        ast.parse(source, feature_version=(3, 8))
        for path in ("kgen/__init__.py", "kgen/__main__.py"):
            ast.parse((ROOT / path).read_text(), feature_version=(3, 8))

    def test_one_clear_sentence(self):
        code = (
            "import sys\n"
            "sys.version_info = (3, 8, 18)\n"
            "sys.executable = '/usr/bin/python3.8'\n"
            "sys.modules['click'] = None\n"
            "from kgen.cli import main\n"
        )
        assert python("-c", code) == (
            2,
            "",
            "error: kgen needs Python 3.12 or newer; this is Python 3.8 "
            "(/usr/bin/python3.8)\n",
        )


class TestCompletion:
    def complete(self, line, position):
        code, stdout, stderr = python(
            *("-m", "kgen"),
            _KGEN_COMPLETE="bash_complete",
            COMP_WORDS=line,
            COMP_CWORD=str(position),
        )
        assert (code, stderr) == (0, "")
        return stdout.splitlines()

    def test_commands(self):
        assert self.complete("kgen r", 1) == ["plain,render", "plain,rule"]

    def test_specs_are_files(self):
        assert self.complete("kgen render spe", 2) == ["file,spe"]

    def test_out_is_a_directory(self):
        assert self.complete("kgen render --out gen", 3) == ["dir,gen"]

    def test_options(self):
        assert self.complete("kgen render --no", 2) == [
            "plain,--no-verify",
            "plain,--no-cache",
        ]


def test_a_current_directory_that_is_gone_is_told(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = "import os, sys; os.rmdir(os.getcwd()); sys.argv[0] = 'kgen'\n"
    command += "from kgen.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "render"],
        cwd=gone,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (
        5,
        "error: the current directory is gone\n  hint: change into one that is there\n",
    )


def deny(monkeypatch, directory):
    """Lets nothing below a directory be reached, nor that be read: as of mode 000."""

    def below(path):
        return directory in map(str, Path(path).parents)

    def refused(function, of_directory):
        def wrapped(path, *arguments, **options):
            if isinstance(path, str | Path) and (
                below(path) or (of_directory and str(path) == directory)
            ):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return function(path, *arguments, **options)

        return wrapped

    access = os.access
    monkeypatch.setattr(os, "stat", refused(os.stat, of_directory=False))
    monkeypatch.setattr(os, "lstat", refused(os.lstat, of_directory=False))
    monkeypatch.setattr(os, "scandir", refused(os.scandir, of_directory=True))
    monkeypatch.setattr("io.open", refused(io.open, of_directory=True))
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode, **options: (
            not (str(path) == directory or below(path))
            and access(path, mode, **options)
        ),
    )


PERMISSIONS = "  hint: check the permissions, or choose another directory\n"


@pytest.fixture
def specs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "sub/b"):
        path = Path("specs", f"{name}.toml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f'[kernel]\nname = "{path.stem}"\nop = "matmul"\n[tile]\nm = 64\nn = 64\n'
        )
    Path("generated").mkdir()


@pytest.mark.parametrize(
    ("denied", "command", "told"),
    [
        ("generated", ("render",), f"generated: permission denied\n{PERMISSIONS}"),
        (
            "generated",
            ("render", "--out", "generated/deep", "--check"),
            f"generated: permission denied\n{PERMISSIONS}",
        ),
        ("specs/sub", ("render", "specs"), "specs/sub: permission denied\n"),
        ("specs/sub", ("list", "specs"), "specs/sub: permission denied\n"),
        (
            "specs/sub",
            ("explain", "specs/sub/b.toml"),
            f"specs/sub: permission denied\n{PERMISSIONS}",
        ),
        (
            "generated",
            ("render", "--templates", "generated"),
            "--templates generated: permission denied\n",
        ),
    ],
)
def test_a_directory_that_cannot_be_read_is_named(
    specs, monkeypatch, denied, command, told
):
    deny(monkeypatch, denied)
    outcome = kgen(*command)
    assert (outcome.exit_code, outcome.stderr) == (5, f"error: {told}")


@pytest.mark.parametrize(
    "command",
    [
        ("explain",),
        ("list",),
        ("render",),
        ("verify",),
        ("migrate",),
        ("vendor", "dest"),
        ("diff", "specs/sub/b.toml"),
        ("tune", "--shape", "64,64,64", "--dry-run"),
        ("bench", "--shape", "64,64,64"),
    ],
)
def test_a_file_that_cannot_be_read_is_no_wrong_command_line(
    specs, monkeypatch, command
):
    deny(monkeypatch, "specs/a.toml")
    outcome = kgen(*command, "specs/a.toml")
    assert outcome.exit_code == 5, outcome.stderr
    assert "specs/a.toml: permission denied\n" in outcome.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("vendor", ""),
        ("vendor", "dest", ""),
        ("render", ""),
        ("render", "--out", ""),
        ("migrate", ""),
        ("list", ""),
        ("explain", ""),
        ("diff", "", "a.toml"),
        ("new", "x", "--op", "matmul", "--out", ""),
    ],
)
def test_an_empty_path_is_a_mistake(command):
    outcome = kgen(*command)
    assert outcome.exit_code == 2
    assert "it is empty; write . for the current directory" in outcome.stderr
