"""A search from the spec to the winner: real workers, a stand-in for what measures."""

import signal
import time
from pathlib import Path

import pytest
from oldest import newest_only
from tune_searches import SPEC, TESTS, search, started, subject_here

from kgen.tune.records import SEARCH
from kgen.tune.store import read

pytestmark = newest_only


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with a spec, which is the current one and the workers' home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    (tmp_path / "gemm.toml").write_text(SPEC)
    return tmp_path


def name_of(record):
    values = dict(record.values)
    stages = values["pipeline.max_concurrent_steps"]
    return f"{values['tile.m']}x{values['tile.n']}x{stages}"


def measured(here):
    """Names that were measured, in order, each with its rounds."""
    log = here / "measured.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [tuple(line.split()[1:]) for line in lines if line.startswith("end")]


def test_the_fastest_wins_whatever_else_goes_wrong(here):
    faults = {
        "64x64x2": {"measure": "hang"},
        "64x64x3": {"prepare": "abort"},
        "64x128x2": {"measure": "wrong"},
        "64x128x3": {"measure": "raise"},
        "128x128x3": {"us": 40.0},
    }
    found, told = search(subject_here(), lambda name: faults.get(name, {}))
    assert name_of(found.winner) == "128x128x3"
    outcomes = {name_of(r): r.outcome for r in found.records.values()}
    assert outcomes == {
        "64x64x2": "hang",
        "64x64x3": "abort",
        "64x128x2": "wrong",
        "64x128x3": "raise",
        "128x64x2": "measured",
        "128x64x3": "measured",
        "128x128x2": "measured",
        "128x128x3": "measured",
    }
    assert found.left == 0
    assert told.begun == [("measuring", 8, 0), "end"]
    assert len(told.results) == 8


def test_what_is_known_is_not_measured_again(here):
    subject = subject_here()
    first, _ = search(subject, lambda name: {})
    count = len(measured(here))
    second, told = search(subject, lambda name: {"us": 1.0})
    assert len(measured(here)) == count
    assert second.winner == first.winner
    assert told.results == []
    assert told.begun == [
        ("measuring", 8, 8),
        "end",
        ("measuring the best again", 8, 8),
        "end",
    ]


def test_a_limit_and_a_budget_leave_the_rest(here):
    found, _ = search(subject_here(), lambda name: {}, limit=3)
    assert len(found.records) == 3
    assert found.left == 0  # Of those that it was given.
    found, _ = search(
        subject_here(), lambda name: {"seconds": 0.4}, results="b.jsonl", budget=1.2
    )
    assert 1 <= len(found.records) < 8
    assert found.left == 8 - len(found.records)
    assert found.winner is not None


def test_ties_are_measured_longer_and_the_simplest_wins(here):
    # Within half a percent of each other, the deeper ring by chance the faster.
    said = {"128x128x3": {"us": 40.0}, "128x128x2": {"us": 40.1}}
    found, told = search(subject_here(), lambda name: said.get(name, {}))
    again = [each for each in measured(here) if each[1] == "16"]
    assert sorted(again) == [("128x128x2", "16"), ("128x128x3", "16")]
    assert told.begun[2] == ("measuring the best again", 2, 0)
    # Fewer bytes of SMEM decide.
    assert name_of(found.winner) == "128x128x2"
    # The other way round, in another run, the same one wins.
    said = {"128x128x3": {"us": 40.1}, "128x128x2": {"us": 40.0}}
    found, _ = search(subject_here(), lambda name: said.get(name, {}), results="s")
    assert name_of(found.winner) == "128x128x2"


def test_noise_widens_the_band(here):
    said = {"128x128x3": {"us": 40.0}, "128x128x2": {"us": 41.0}}
    quiet, _ = search(subject_here(), lambda name: said.get(name, {}), results="q")
    assert name_of(quiet.winner) == "128x128x3"
    assert quiet.ranked.band == 0.005
    noisy, _ = search(
        subject_here(), lambda name: {"noise": 0.03} | said.get(name, {}), results="n"
    )
    assert noisy.ranked.band > 0.02
    assert name_of(noisy.winner) == "128x128x2"


def test_a_search_that_was_killed_goes_on(here):
    """kill -9: no worker is left, no result is lost, none is measured twice."""
    results = here / "r.jsonl"
    running, workers = started(results)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    until = time.monotonic() + 10
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < until, "the workers end with their parent"
        time.sleep(0.02)
    kept = read(results).records
    assert len(kept) >= 3
    found, told = search(subject_here(), lambda name: {})
    assert told.begun[0] == ("measuring", 8, len(kept))
    assert len(told.results) >= 8 - len(kept)
    assert {r.digest for r in kept} <= found.records.keys()
    searched = [r for r in read(results).records if r.stage == SEARCH]
    assert len(searched) == len({r.digest for r in searched}) == 8
