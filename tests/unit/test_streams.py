"""Standard streams that are closed or full, and ctrl-C at any time: the exit code."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from oldest import newest_only

pytestmark = newest_only

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
NO_SPACE = "error: [Errno 28] No space left on device\n"
CLOSED = "error: standard output is closed\n"


def shell(command):
    """Returns the exit code of `kgen command`, redirections included, and stderr."""
    kgen = shlex.join([sys.executable, "-m", "kgen"])
    run = subprocess.run(
        ["/bin/sh", "-c", f"{kgen} {command}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
        check=False,
    )
    return run.returncode, run.stderr


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("specs").mkdir()
    Path("specs/gemm.toml").write_text('[kernel]\nname = "gemm"\nop = "matmul"\n')
    Path("bad.toml").write_text("x")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- 2>&-"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("render --no-verify -j 1", 0),
        ("render missing.toml", 5),
        ("list bad.toml", 3),
        ("render --bogus", 2),
        ("--bogus", 2),
    ],
)
def test_lost_messages_change_no_exit_code(here, command, code, redirection):
    assert shell(f"{command} {redirection}") == (code, "")
    assert Path("generated").exists() == (code == 0)


def test_lost_messages_change_no_comparison(here):
    command = "render --check --no-verify"
    assert shell(f"{command} 2>/dev/full")[0] == 1
    shell("render --no-verify -q")
    for redirection in ("2>&-", "2>/dev/full", "<&- >&- 2>&-"):
        assert shell(f"{command} {redirection}") == (0, "")


@pytest.mark.parametrize("command", ["list", "schema", "rule", "--help", "rule --help"])
def test_an_output_that_cannot_be_written_is_an_error(here, command):
    assert shell(f"{command} >&-") == (5, CLOSED)
    assert shell(f"{command} >/dev/full") == (5, NO_SPACE)
    assert shell(f"{command} >&- 2>/dev/full") == (5, "")


def test_a_closed_stdout_that_nobody_needs_is_none(here):
    message = "rendered generated/gemm.py (unverified)\n1 module rendered.\n"
    assert shell("render --no-verify >&-") == (0, message)


@pytest.mark.parametrize("command", ["--help", "list --help", "rule"])
def test_a_reader_that_goes_away(here, command):
    run = subprocess.Popen(
        [sys.executable, "-m", "kgen", *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    run.stdout.close()
    assert (run.stderr.read(), run.wait(30)) == (b"", 141)
    run.stderr.close()


def interrupted(code):
    """Returns the exit code and stderr of `kgen list`, interrupted by `code`."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nfrom kgen.cli import main\nmain()", "list"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    return run.returncode, run.stderr


def test_ctrl_c_while_the_first_modules_are_imported():
    code = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    assert interrupted(code) == (-signal.SIGINT, "")


SWALLOWED = """
import os, signal, kgen.spec.load
def find(_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        {}
kgen.spec.load.find_specs = find
"""


@pytest.mark.parametrize(
    ("instead", "message"),
    [("raise ValueError", "interrupted\n"), ("return ()", "")],
)
def test_ctrl_c_that_something_swallows(here, instead, message):
    assert interrupted(SWALLOWED.format(instead)) == (130, message)


def test_ctrl_c_in_a_destructor(here):
    code = (
        "import os, signal, kgen.spec.load\n"
        "class Last:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        for _ in range(9): pass\n"
        "def find(_):\n"
        "    Last()\n"
        "    return ()\n"
        "kgen.spec.load.find_specs = find\n"
    )
    assert interrupted(code) == (130, "")


def test_as_a_library_kgen_leaves_ctrl_c_alone():
    code = (
        "import signal, threading\n"
        "before = signal.getsignal(signal.SIGINT)\n"
        "import kgen.cli\n"
        "assert signal.getsignal(signal.SIGINT) is before\n"
    )
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True)
    elsewhere = (
        "import threading\n"
        "def work():\n"
        "    import kgen.cli\n"
        "    print('done')\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", elsewhere],
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    )
    assert (run.stdout, run.stderr) == (b"done\n", b"")
