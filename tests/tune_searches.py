"""Searches with real workers and a stand-in for what measures, for tests."""

import os
import subprocess
import sys
import time
from pathlib import Path

from kgen.tune import session
from kgen.tune.pool import Pool
from kgen.tune.search import Search
from kgen.tune.store import Store
from kgen.tune.tasks import Limits, Setup

SHAPE = (256, 512, 256)
SPEC = """\
# A kernel.
[kernel]
name = "gemm"
op = "matmul"

[tile]
m = 64  # to be tuned

[schedule]
warp_specialized = true
num_compute_wgs = 1

[tune]
tile.m = [64, 128, 192]
tile.n = [64, 128]
pipeline.max_concurrent_steps = [2, 3, 64]
"""
LIMITS = Limits(start=60, prepare=30, measure=2)
TESTS = Path(__file__).parent


class Told:
    """A progress that keeps what it is told."""

    def __init__(self):
        self.begun, self.results, self.texts = [], [], []

    def begin(self, doing, total, known):
        self.begun.append((doing, total, known))

    def done(self, record, legal, best):
        self.results.append((record.outcome, legal.candidate.label))

    def end(self):
        self.begun.append("end")

    def tell(self, text):
        self.texts.append(text)


def text_of(said):
    """Candidates whose behaviour `said` tells from their tile and stages."""

    def text(legal):
        name = (
            f"{legal.plan.tile_m}x{legal.plan.tile_n}x{legal.plan.max_concurrent_steps}"
        )
        return (
            f"def matmul():\n    return {({'name': name, 'us': 50.0} | said(name))}\n"
        )

    return text


def search(subject, said, *, results="r.jsonl", budget=100.0, limit=None):
    """Runs a search; returns what it found and was told."""
    told = Told()
    setup = Setup(meter="tune_meters:Meter", request=subject.request.to_json())
    with Store(Path(results)) as store, Pool(setup, jobs=2, limits=LIMITS) as pool:
        started = time.monotonic()
        machine = pool.start()
        key = session.key_of(subject, machine, "template")
        found = Search(
            key,
            subject.candidates[:limit],
            store=store,
            pool=pool,
            text_of=text_of(said),
            progress=told,
            deadline=started + budget,
            budget=budget,
        ).run()
    return found, told


def subject_here():
    return session.read(Path("gemm.toml"), SHAPE)


def workers_of(parent):
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.add(int(process.name))
    return found


def half_hang(name):
    """Large tiles, which come last, hang: only a signal ends their workers."""
    return {"measure": "hang"} if name.startswith("128x") else {"seconds": 0.2}


def hangs(log):
    return log.exists() and "begin 128x" in log.read_text()


def started(results):
    """A process that searches, once a candidate hangs; and its workers."""
    code = "import tune_searches as t\n" "t.search(t.subject_here(), t.half_hang)\n"
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    running = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
    )
    while not hangs(results.parent / "measured.log"):
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.02)
    workers = workers_of(running.pid)
    assert len(workers) == 2
    return running, workers
