"""The tuner's workers: real processes, with a stand-in for what measures."""

import dataclasses
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from oldest import newest_only

from kgen.tune.pool import Pool
from kgen.tune.tasks import Limits, PoolError, Setup, Task
from kgen.verify.request import Request, RequestCase

pytestmark = newest_only

REQUEST = Request(
    name="gemm",
    source="",
    function="matmul",
    op="matmul",
    arch="sm_90a",
    cases=(RequestCase(m=128, n=128, k=64),),
    operand_dtype="bfloat16",
)
LIMITS = Limits(start=60, prepare=1.5, measure=1.5)


def task(name, **said):
    said = {"name": name, "us": 10.0, **said}
    return Task(tag=name, source=f"def matmul():\n    return {said}\n", rounds=3)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where the meters write their log."""
    monkeypatch.setenv("HOME", str(tmp_path))
    tests = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", str(tests))
    return tmp_path


def pool(meter="Meter", jobs=2, limits=LIMITS, request=REQUEST):
    setup = Setup(meter=f"tune_meters:{meter}", request=request.to_json())
    return Pool(setup, jobs=jobs, limits=limits)


def children():
    """The processes that this one has started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(process.name))
    return found


def run(tasks, **how):
    with pool(**how) as workers:
        assert workers.start() == {"device": "stand-in", "jax": "0.0"}
        return {done.task.tag: done for done in workers.run(iter(tasks))}


def test_every_fault_is_a_result_and_ends_nothing(home):
    faults = [
        task(f"{how} in {phase}", **{phase: how})
        for phase in ("prepare", "measure")
        for how in ("hang", "abort", "raise", "exit")
    ]
    good = [task(f"good {number}", us=float(number + 1)) for number in range(4)]
    done = run([*faults, task("wrong", measure="wrong"), *good])
    assert {name: each.outcome for name, each in done.items()} == {
        "hang in prepare": "hang",
        "abort in prepare": "abort",
        "raise in prepare": "raise",
        "exit in prepare": "raise",
        "hang in measure": "hang",
        "abort in measure": "abort",
        "raise in measure": "raise",
        "exit in measure": "raise",
        "wrong": "wrong",
        **{f"good {number}": "measured" for number in range(4)},
    }
    assert done["good 2"].us == (3.0, 3.0, 3.0)
    assert done["good 2"].peer_us == (100.0, 100.0, 100.0)
    assert done["hang in measure"].detail == "not measured within 1.5 s"
    assert done["hang in prepare"].detail == "not compiled within 1.5 s"
    assert "SIGABRT" in done["abort in measure"].detail
    assert done["abort in prepare"].detail.startswith("while compiling: ")
    assert done["raise in measure"].detail == "RuntimeError: planted"
    assert done["wrong"].detail == "it is off"


def test_a_module_that_is_no_python_is_a_result(home):
    done = run([Task(tag="bad", source="def matmul(:", rounds=1), task("good")])
    assert done["bad"].outcome == "raise"
    assert "SyntaxError" in done["bad"].detail
    assert done["good"].outcome == "measured"


def test_one_candidate_is_measured_at_a_time(home):
    run([task(f"t{number}", seconds=0.2) for number in range(6)], jobs=3)
    lines = (home / "measured.log").read_text().splitlines()
    names = [line.split()[1] for line in lines]
    assert len(lines) == 12
    assert names[::2] == names[1::2], "each ends before another begins"


def test_no_process_is_left(home):
    before = children()
    with pool() as workers:
        workers.start()
        assert len(children() - before) == 2
    assert children() == before


def test_an_exception_ends_the_workers(home):
    before = children()

    def interrupted():
        with pool() as workers:
            workers.start()
            for _ in workers.run(iter([task("good"), task("long", seconds=60)])):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert children() == before


def test_a_worker_that_is_killed_is_replaced(home):
    before = children()
    with pool(jobs=1, limits=Limits(start=60, prepare=20, measure=20)) as workers:
        workers.start()
        (worker,) = children() - before

        def tasks():
            yield task("victim", seconds=10)
            yield task("next")

        ends = {}
        running = workers.run(tasks())
        log = home / "measured.log"

        def kill():
            while not log.exists():
                time.sleep(0.02)
            os.kill(worker, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        for done in running:
            ends[done.task.tag] = done
        killer.join()
    assert ends["victim"].outcome == "abort"
    assert "SIGKILL" in ends["victim"].detail
    assert ends["next"].outcome == "measured"


def test_what_may_not_begin_does_not(home):
    with pool(jobs=1) as workers:
        workers.start()
        begun = []

        def may_begin():
            return len(begun) < 2

        for done in workers.run(iter([task("a"), task("b"), task("c")]), may_begin):
            begun.append(done.task.tag)
    assert begun == ["a", "b"]


def test_nothing_to_measure_on_is_told(home):
    with pytest.raises(PoolError, match=r"^nothing to measure on$"), pool("NoGpu") as p:
        p.start()


def test_a_reference_that_cannot_be_had_is_told(home):
    source = "raise ImportError('too old')"
    broken = dataclasses.replace(REQUEST, source=source)
    told = r"^no reference to compare with: ImportError: too old$"
    with pytest.raises(PoolError, match=told), pool(request=broken) as p:
        p.start()
    fine = dataclasses.replace(REQUEST, source="def reference(a, b):\n    return a\n")
    with pool(request=fine) as p:
        assert p.start() == {"device": "stand-in", "jax": "0.0"}


def test_workers_that_die_at_once_are_not_started_for_ever(home):
    with (
        pytest.raises(PoolError, match=r"workers cannot be started.*status 7"),
        pool("Broken") as workers,
    ):
        workers.start()


def test_without_a_gpu_the_real_meter_says_so(home):
    setup = Setup(meter="kgen.tune.meter:GpuMeter", request=REQUEST.to_json())
    with (
        pytest.raises(PoolError, match=r"nothing to measure on: .*sees no NVIDIA GPU"),
        Pool(setup, jobs=1, limits=LIMITS) as workers,
    ):
        workers.start()
