"""Modules that harm their process: each is a told failure, and nothing is left behind.

None of them imports JAX, so that a worker takes a tenth of a second.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from oldest import newest_only
from verify_requests import request

from kgen.verify import process, verify
from kgen.verify.scratch import private_directory, remove_left_behind

pytestmark = newest_only

ROOT = Path(process.__file__).parents[2]
FOREVER = "while True:\n    pass\n"


def marked_processes(directory: Path) -> list[int]:
    """Returns the processes of workers whose private directory is in `directory`."""
    mark = f"{process.MARK}={directory}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until(condition, seconds=10.0):
    """Waits for `condition` to become true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
    return value


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Where workers put their files; afterwards no file and no process is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    wait_until(lambda: not marked_processes(tmp_path), 2)
    assert list(tmp_path.glob("kgen-verify-*")) == []


def failure(source, **options):
    """Verifies a bad module and returns what `import` says; the rest is not run."""
    verdict = verify(request(source), cache=False, **options)
    assert not verdict.passed
    failed, *rest = verdict.levels
    assert (failed.level, failed.status) == ("import", "failed")
    assert [(r.level, r.status, r.detail) for r in rest] == [
        ("static", "not_run", "import failed"),
        ("lower", "not_run", "import failed"),
        ("simulate", "not_run", "import failed"),
    ]
    return failed.detail


def test_an_endless_loop_is_ended_at_the_limit():
    start = time.monotonic()
    assert failure(FOREVER, timeout=1.5) in (
        "no result within 1.5 s; it was at small_matmul.py:1: while True:",
        "no result within 1.5 s; it was at small_matmul.py:2: pass",
    )
    assert 1.5 <= time.monotonic() - start < 30


def test_a_loop_that_never_lets_python_run_is_ended_too():
    source = "import re\nre.match('(a|aa)+$', 'a' * 99 + 'b')\n"
    assert failure(source, timeout=1).startswith("no result within 1 s")


def test_signals_are_no_way_out():
    source = (
        "import signal, time\n"
        "for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(s, signal.SIG_IGN)\n"
        "time.sleep(1000)\n"
    )
    assert failure(source, timeout=1).endswith("small_matmul.py:4: time.sleep(1000)")


def test_a_stopped_worker_is_ended():
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n"
    assert failure(source, timeout=1) == "no result within 1 s"


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        (
            "import os\nos._exit(3)\n",
            "the worker exited with status 3 without a result",
        ),
        (
            "import os\nos._exit(0)\n",
            "the worker exited with status 0 without a result",
        ),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
            "the worker was ended by SIGKILL (out of memory?)",
        ),
        (
            "import os\nfor i in range(9):\n    os.write(2, b'line %d\\n' % i)\n"
            "os.write(2, b'Check failed: x == y')\nos.abort()\n",
            "the worker was ended by SIGABRT\n  line 5\n  line 6\n  line 7\n  line 8\n"
            "  Check failed: x == y",
        ),
        (
            "import sys\nsys.exit(0)\n",
            "SystemExit: 0; at small_matmul.py:2: sys.exit(0)",
        ),
        (
            "raise KeyboardInterrupt\n",
            "KeyboardInterrupt without a message; at small_matmul.py:1:"
            " raise KeyboardInterrupt",
        ),
        ("x = (\n", "SyntaxError: '(' was never closed; at small_matmul.py:1: x = ("),
        (
            "import nothing_of_the_kind\n",
            "ModuleNotFoundError: No module named 'nothing_of_the_kind'; at"
            " small_matmul.py:1: import nothing_of_the_kind",
        ),
        ("x = 1\n", "the module has no function matmul"),
        ("matmul = 1\n", "the module has no function matmul"),
        (
            "raise ValueError(input())\n",
            "EOFError: EOF when reading a line; at small_matmul.py:1:"
            " raise ValueError(input())",
        ),
    ],
)
def test_a_module_that_ends_its_process(source, detail):
    assert failure(source) == detail


def test_a_name_that_belongs_to_another_module_is_refused():
    verdict = verify(request("matmul = print\n", name="json"), cache=False)
    assert verdict.failure.detail == "the name json belongs to another module"


def test_what_a_module_prints_is_no_event_and_no_news():
    forged = '{"event": "result", "level": "import", "status": "failed"}'
    source = (
        f"import os, sys\nprint('''{forged}''', flush=True)\n"
        f"os.write(1, b'''{forged}\\n''' * 10_000)\nos.write(2, b'x' * 10**6)\n"
        "sys.__stdout__.write('more')\ndef matmul(): pass\n"
    )
    verdict = verify(request(source, sizes=()), cache=False)
    assert [(r.status, r.detail) for r in verdict.levels] == [
        ("passed", ""),
        ("not_run", "no sizes are given"),
        ("not_run", "no sizes are given"),
        ("not_run", "no sizes are given"),
    ]
    assert not verdict.passed


def test_nonsense_in_the_events_is_a_failure():
    source = (
        "import os, stat\n"
        "for fd in range(3, 20):\n"
        "    try:\n"
        "        if stat.S_ISFIFO(os.fstat(fd).st_mode):\n"
        "            os.write(fd, b'nonsense\\n')\n"
        "    except OSError:\n"
        "        pass\n"
        "import time\n"
        "time.sleep(1000)\n"
    )
    assert failure(source).startswith("the worker's report cannot be read: Expecting")


@pytest.mark.parametrize("session", [False, True])
def test_children_are_ended_with_the_worker(session, scratch):
    source = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '1000'],"
        f" start_new_session={session})\n"
        "print('child', child.pid, file=sys.stderr, flush=True)\n"
        "import os\nos._exit(3)\n"
    )
    first, last = failure(source).splitlines()
    assert first == "the worker exited with status 3 without a result"
    pid = int(last.split()[-1])
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        # A zombie whose parent is gone waits for init and runs no more.
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


def test_a_child_that_holds_the_pipes_does_not_hold_up_the_verdict():
    source = (
        "import os\nif os.fork() == 0:\n    os.setsid()\n"
        "    while True:\n        os.write(2, b'y' * 999)\n"
        "def matmul(): pass\n"
    )
    start = time.monotonic()
    verdict = verify(request(source, sizes=()), cache=False)
    assert verdict.levels[0].status == "passed"
    assert time.monotonic() - start < 30


def test_files_of_the_module_go_with_the_worker(scratch):
    source = (
        "import pathlib, tempfile\n"
        "pathlib.Path('here').write_text('x')\n"
        "tempfile.mkstemp()\n"
        "def matmul(): pass\n"
    )
    assert verify(request(source, sizes=()), cache=False).levels[0].status == "passed"


def test_the_worker_sees_nothing_of_the_users_settings(monkeypatch):
    for name in (
        "JAX_ENABLE_X64",
        "JAX_DISABLE_JIT",
        "XLA_FLAGS",
        "MOSAIC_GPU_DUMP_PTX",
    ):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    source = (
        "import os\n"
        "raise ValueError({k: v for k, v in os.environ.items()"
        " if k.startswith(('JAX', 'XLA', 'MOSAIC', 'PYTHONHASH', 'LC', 'LANG'))})\n"
    )
    assert failure(source).startswith(
        "ValueError: {'PYTHONHASHSEED': '0', 'LC_ALL': 'C.UTF-8', 'JAX_PLATFORMS':"
        " 'cpu', 'JAX_TRACEBACK_FILTERING': 'off'}; at "
    )


def test_no_bytecode_is_written_and_the_text_is_kept_as_it_is():
    source = (
        "'''é\\r'''\nimport pathlib\nfile = pathlib.Path(__file__)\n"
        "assert __name__ == 'small_matmul' == file.stem, __name__\n"
        "assert not list(file.parent.rglob('*.pyc'))\n"
        "assert 'é' in file.read_text(encoding='utf-8')\n"
        "def matmul(): pass\n"
    )
    assert verify(request(source, sizes=()), cache=False).levels[0].status == "passed"


def test_a_worker_that_cannot_be_started_is_a_failure(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert failure("x = 1\n") == (
        "the worker could not be run: [Errno 2] No such file or directory:"
        " '/no/such/python'"
    )


def test_an_exception_in_this_process_ends_the_worker(monkeypatch, scratch):
    seen = []

    def interrupted(self, worker):
        seen.extend(wait_until(lambda: marked_processes(scratch)))
        raise KeyboardInterrupt

    monkeypatch.setattr(process._Report, "listen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verify(request(FOREVER), cache=False)
    assert seen
    assert marked_processes(scratch) == []


def start_verifying(scratch: Path) -> subprocess.Popen:
    """Starts a process that verifies an endless module; returns once it does."""
    code = (
        "import sys; from kgen.verify import Request, verify\n"
        "verify(Request.from_json(sys.stdin.read()), cache=False)\n"
    )
    verifying = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
        start_new_session=True,
    )
    verifying.stdin.write(request(FOREVER).to_json())
    verifying.stdin.close()
    wait_until(lambda: list(scratch.glob("kgen-verify-*/small_matmul.py")))
    assert marked_processes(scratch)
    return verifying


def test_ctrl_c_leaves_nothing(scratch):
    verifying = start_verifying(scratch)
    os.kill(verifying.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in verifying.stderr.read()
    assert verifying.wait() != 0


def test_the_worker_dies_with_a_killed_parent(scratch):
    verifying = start_verifying(scratch)
    verifying.kill()
    verifying.wait()
    verifying.stderr.close()
    wait_until(lambda: not marked_processes(scratch))
    # Nobody is left to remove the directory; a later run does, when it is old.
    (directory,) = scratch.glob("kgen-verify-*")
    run_later()
    assert directory.exists()
    make_old(directory)
    run_later()
    assert not directory.exists()


def test_old_directories_are_kept_where_they_are_no_rests(scratch):
    with private_directory() as mine:
        make_old(Path(mine))
        for name in ("kgen-verify-link", "kgen-verify-file", "other"):
            (scratch / name).mkdir()
        (scratch / "kgen-verify-link").rmdir()
        (scratch / "kgen-verify-link").symlink_to(scratch / "other")
        (scratch / "kgen-verify-file").rmdir()
        (scratch / "kgen-verify-file").write_text("x")
        for path in scratch.iterdir():
            make_old(path)
        code = (
            "from kgen.verify.scratch import remove_left_behind\n"
            f"remove_left_behind({str(scratch)!r})\n"
        )
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        assert Path(mine).exists()  # Its run goes on.
        left = sorted(path.name for path in scratch.iterdir())
        assert left == [
            *sorted((Path(mine).name, "kgen-verify-file", "kgen-verify-link")),
            "other",
        ]
    for name in ("kgen-verify-link", "kgen-verify-file"):
        (scratch / name).unlink()


def run_later():
    remove_left_behind.cache_clear()
    with private_directory():
        pass


def make_old(path):
    os.utime(path, (0, 0), follow_symlinks=False)
