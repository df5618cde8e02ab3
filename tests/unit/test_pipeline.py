"""The stages in their order: what is passed on, and what ends a run early."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from kgen import pipeline, report
from kgen.emit.render import render
from kgen.errors import ExitCode, FileError, SpecError
from kgen.pipeline import Options, plan_all
from kgen.report import Report
from kgen.verify.request import LevelResult, Verdict
from kgen.workers import in_processes, in_threads

ROOT = Path(__file__).resolve().parents[2]


def spec(directory, name, text="", file=None):
    path = directory / f"{file or name}.toml"
    path.write_text(f'[kernel]\nname = "{name}"\nop = "matmul"\n{text}')
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestPlans:
    def test_in_the_order_of_the_specs(self, here):
        paths = [spec(here, name) for name in ("b", "a", "c")]
        assert [plan.name for plan in plan_all(paths)] == ["b", "a", "c"]

    def test_every_problem_of_every_stage_is_told_once(self, here):
        spec(here, "a", "[tile]\nm = 100\n")  # A broken rule.
        spec(here, "b", "[tile]\nmm = 1\n")  # An unknown key.
        spec(here, "c")
        spec(here, "c", file="d")  # A name given twice.
        with pytest.raises(SpecError) as caught:
            plan_all([here])
        found = [(Path(p.path).name, p.line) for p in caught.value.problems]
        assert sorted(found) == [("a.toml", 5), ("b.toml", 5), ("d.toml", 2)]

    def test_broken_rules_of_several_specs(self, here):
        spec(here, "a", "[tile]\nm = 100\n")
        spec(here, "b", "[tile]\nm = 200\n")
        with pytest.raises(SpecError) as caught:
            plan_all([here])
        assert [Path(p.path).name for p in caught.value.problems] == [
            "a.toml",
            "b.toml",
        ]

    def test_a_missing_file(self, here):
        with pytest.raises(FileError):
            plan_all([here / "missing.toml"])


def test_the_request_is_made_of_the_plan(here):
    text = '[dtypes]\na = "float16"\nb = "float16"\nout = "float32"\n'
    (plan,) = plan_all([spec(here, "gemm", text)])
    module = render(plan, verified=True)
    request = pipeline.request_of(plan, module)
    assert (request.name, request.function, request.op) == ("gemm", "matmul", "matmul")
    assert (request.arch, request.layout) == ("sm_90a", "nn")
    assert (request.operand_dtype, request.out_dtype) == ("float16", "float32")
    assert request.source == module.source
    assert [(c.m, c.n, c.k, c.smem_bytes, c.simulate) for c in request.cases] == [
        (c.m, c.n, c.k, c.smem_bytes, c.simulate) for c in plan.cases
    ]


# In a process of its own: where threads run, as they may here, nothing is forked.
WORKER_THAT_DIES = """
import os, time
from pathlib import Path
from kgen import pipeline, workers
from kgen.emit import render as stage
from kgen.report import Report
from kgen.workers import WorkerError

# One of the two begins late: it must end even then.
def begin_late(parent):
    try:
        os.close(os.open("first", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        time.sleep(1)

workers.die_with_parent = begin_late

def die_of_b(plan, **options):
    return os._exit(9) if plan.name == "b" else real(plan, **options)

real, stage.render = stage.render, die_of_b
plans = pipeline.plan_all(sorted(Path().glob("*.toml")))
options = pipeline.Options(out=Path(), jobs=2)
try:
    with Report(quiet=True) as told:
        list(pipeline.make(plans, options, told.track))
except WorkerError as error:
    print(int(error.exit_code))
    print(error)
"""


def test_a_worker_that_dies(here):
    for name in ("a", "b", "c"):
        spec(here, name)
    done = subprocess.run(
        [sys.executable, "-c", WORKER_THAT_DIES],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (
        "5\n"
        "a process died while rendering; was there enough memory?\n"
        "  hint: do less at once with -j\n",
        "",
    )


def test_rendering_uses_the_processes_that_it_is_given(here):
    for name in ("a", "b", "c", "d"):
        spec(here, name)
    code = (
        "import os, sys\n"
        "from kgen.emit import render as stage\n"
        "real = stage.render\n"
        "def render(plan, **options):\n"
        "    with open('pids', 'a') as file:\n"
        "        file.write(f'{os.getpid()}\\n')\n"
        "    return real(plan, **options)\n"
        "stage.render = render\n"
        "from kgen.cli import main\n"
        "main()\n"
    )
    counts, trees = [], []
    for jobs in ("1", "3"):
        arguments = ("render", ".", "--no-verify", "-j", jobs, "--out", f"out{jobs}")
        # A fork beside threads is a warning of Python.
        subprocess.run(
            [sys.executable, "-W", "error", "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
        )
        counts.append(len(set(Path("pids").read_text().split())))
        Path("pids").unlink()
        trees.append(
            {path.name: path.read_bytes() for path in Path(f"out{jobs}").rglob("*.py")}
        )
    # The first spec is rendered by the process itself; a quick worker may take all.
    assert (counts[0], counts[1] > 1) == (1, True)
    assert trees[0] == trees[1]
    assert len(trees[0]) == 8


def test_beside_threads_nothing_is_forked(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait)
    thread.start()
    try:
        pids = list(
            in_processes(
                _pid, range(4), jobs=2, track=Report().track, doing="rendering"
            )
        )
    finally:
        go_on.set()
        thread.join()
    assert pids == [os.getpid()] * 4


def _pid(_):
    return os.getpid()


# Of the processes, only the first item of all comes to an end.
ENDLESS = """
import os, time
from pathlib import Path
from kgen.workers import in_processes

def wait(item):
    if item:
        Path(f"pid{os.getpid()}").touch()
        time.sleep(1000)

list(in_processes(wait, range(9), jobs=3, track=lambda all, _: all, doing="waiting"))
"""


def test_the_processes_of_a_killed_run_end_too(here):
    run = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    deadline = time.monotonic() + 30
    while len(files := list(Path().glob("pid*"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    run.kill()
    run.wait()
    pids = [int(file.name.removeprefix("pid")) for file in files]
    while (left := list(filter(running, pids))) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert (len(pids), left) == (3, [])


def running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # A zombie only waits to be counted.


def test_an_early_end_kills_the_processes_started_since():
    older = subprocess.Popen(["sleep", "100"])
    younger = []

    def wait_for_a_process(_):
        younger.append(subprocess.Popen(["sleep", "100"]))
        return younger[-1].wait()

    def interrupt(_futures, _doing):
        while not younger:
            time.sleep(0.01)
        raise KeyboardInterrupt

    try:
        results = in_threads(
            wait_for_a_process, range(9), jobs=1, track=interrupt, doing="waiting"
        )
        with pytest.raises(KeyboardInterrupt):
            next(results)
        assert [process.returncode for process in younger] == [-signal.SIGKILL]
        assert older.poll() is None
    finally:
        older.kill()
        older.wait()


def test_a_fault_of_the_verifier_ends_the_run(here, monkeypatch):
    def fail(request, **_):
        raise ZeroDivisionError(request.name)

    monkeypatch.setattr("kgen.verify.verify", fail)
    plans = plan_all([spec(here, name) for name in ("a", "b")])
    with Report(quiet=True) as told, pytest.raises(ZeroDivisionError, match=r"^a$"):
        list(pipeline.make(plans, Options(out=here / "out"), told.track))
    assert not (here / "out").exists()


def test_stale_temporaries_are_cleaned_up(here, monkeypatch):
    removed = []
    monkeypatch.setattr("kgen.emit.tree.remove_stale_temporaries", removed.append)
    plans = plan_all([spec(here, "a")])
    with Report(quiet=True) as told:
        list(pipeline.make(plans, Options(out=here, verify=False), told.track))
    assert removed == [here, here / "tests"]


@pytest.mark.parametrize(
    ("levels", "remembered", "told"),
    [
        (
            (("static", 0.1), ("lower", 0.04), ("simulate", 12.35)),
            False,
            "static 0.1 s, lower 0.0 s, simulate 12.3 s",
        ),
        (
            (("static", 0.1), ("lower", 0.04), ("simulate", 12.35)),
            True,
            "static, lower, simulate: remembered",
        ),
        ((("lower", 1.0),), False, "lower 1.0 s"),
    ],
)
def test_levels_are_named(levels, remembered, told):
    verdict = Verdict(
        levels=tuple(
            LevelResult(level=name, status="passed", seconds=seconds)
            for name, seconds in (("import", 0.5), *levels)
        ),
        jax_version="0.12.0",
        remembered=remembered,
    )
    assert report.name_levels(verdict) == told


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((1, 4), 4),
        ((4, 1), 4),
        ((4, 5), 5),
        ((5, 4, 1), 5),
        ((1,), 1),
    ],
)
def test_the_heavier_exit_code_wins(codes, expected):
    told = Report(quiet=True)
    for code in codes:
        told._weigh(ExitCode(code))
    assert told.exit_code == expected


def test_futures_are_yielded_in_their_order():
    futures = [Future() for _ in range(3)]
    for future in reversed(futures):
        future.set_result(None)
    assert list(Report().track(futures, "rendering")) == futures


BAR = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
from kgen.report import Report
from kgen.workers import WorkerError
with Report() as told, ThreadPoolExecutor(1) as pool:
    futures = [pool.submit(time.sleep, 0.8) for _ in range(2)]
    for future in told.track(futures, "verifying"):
        told._say("rendered [bold]x.py", bold=True)
"""


def on_terminal(code, **variables):
    """Returns what `code` shows on a terminal behind its stderr."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **variables}
    run = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65_536)
        except OSError:  # The other side is closed.
            break
    os.close(ours)
    assert run.wait(30) == 0
    return shown.decode()


class TestProgress:
    def test_a_bar_is_shown_on_a_terminal(self):
        shown = on_terminal(BAR)
        assert "verifying" in shown
        assert "1/2" in shown
        assert shown.count("rendered [bold]x.py") == 2
        assert "\x1b[?25h" in shown  # The cursor is back.

    def test_none_for_a_quiet_run(self):
        assert on_terminal(BAR.replace("Report()", "Report(quiet=True)")) == ""

    def test_no_colour_is_respected(self):
        coloured = re.compile(r"\x1b\[[0-9;]*[1-9][0-9;]*m")
        assert coloured.search(on_terminal(BAR))
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", on_terminal(BAR, NO_COLOR="1"))

    def test_plain_lines_elsewhere(self):
        run = subprocess.run(
            [sys.executable, "-c", BAR],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
        )
        assert run.stderr == "rendered [bold]x.py\nrendered [bold]x.py\n"
