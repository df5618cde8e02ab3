"""`kgen tune` as a user meets it; where it measures, with a stand-in for the GPU."""

import html.parser
import signal
import sys
import tomllib
from pathlib import Path

import commands
import pytest
from oldest import newest_only
from tune_searches import SPEC, TESTS, started

from kgen.cli import tune as command
from kgen.tune import session
from kgen.tune.store import read
from kgen.tune.tasks import Limits

pytestmark = newest_only

SHAPE = "256,512,256"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    (tmp_path / "gemm.toml").write_text(SPEC)
    return tmp_path


def refused(*arguments, code=2):
    """What a command says that fails."""
    done = commands.kgen("tune", *arguments)
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""
    return done.stderr


def tune(meter="Rendered", **how):
    """Runs all of the command but for the meter."""
    started = session.now()
    subject = session.read(Path("gemm.toml"), (256, 512, 256))
    options = session.Options(
        results=Path("gemm.tune.jsonl"),
        budget=120,
        jobs=2,
        limits=Limits(start=60, prepare=60, measure=5),
        meter=f"tune_meters:{meter}",
    )
    command._tune(subject, options, started, **{"write": False, "page": None} | how)


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order; collects what is loaded from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.loaded = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        self.loaded += [v for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_winner_is_written_and_reported(here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "black", None)  # Where GPUs are, it is not.
    tune(write=True, page=Path("page.html"))
    said = tomllib.loads(Path("gemm.toml").read_text())
    # The largest tile, and of equal rings the one with the fewest bytes.
    assert said["tile"] == {"m": 128, "n": 128}
    assert said["pipeline"] == {"max_concurrent_steps": 2}
    text = Path("gemm.toml").read_text()
    assert text.startswith("# A kernel.\n[kernel]\n")
    assert "m = 128  # to be tuned\n" in text
    assert text.index("[tune]") > 0
    out, err = capsys.readouterr()
    assert "The winner is in gemm.toml.\n" in out
    assert "The report is in page.html.\n" in out
    assert "[1/8] " in err
    # A second run measures nothing and changes nothing.
    tune(write=True)
    out, err = capsys.readouterr()
    assert "The winner was already in gemm.toml.\n" in out
    assert "measuring: 8 candidates, 8 of them known\n" in err
    assert "[1/8]" not in err
    assert Path("gemm.toml").read_text() == text
    check_page(Path("page.html").read_text())
    tune(page=Path("page.html"))  # Its own page is replaced.


def check_page(text):
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.loaded == [], "it needs nothing else"
    assert page.tags.count("circle") == 8
    for told in ("stand-in", "KG401", "the kernel does not take the shape", "tie band"):
        assert told in text


def test_a_spec_that_changed_meanwhile_is_left_alone(here, monkeypatch):
    original = session.tune_subject

    def edited(*arguments):
        found = original(*arguments)
        with Path("gemm.toml").open("a") as spec:
            spec.write("# mine\n")
        return found

    monkeypatch.setattr(session, "tune_subject", edited)
    with pytest.raises(Exception, match="changed while its kernel was tuned"):
        tune(write=True)
    assert Path("gemm.toml").read_text() == SPEC + "# mine\n"


def test_nothing_that_can_be_measured_is_a_failure(here, capsys):
    with pytest.raises(Exception, match="no candidate could be measured"):
        tune(meter="NeverRight", page=Path("page.html"))
    assert "wrong" in capsys.readouterr().out
    page = Path("page.html").read_text()
    assert "No candidate could be measured." in page
    assert "never &lt;b&gt;right" in page


def test_an_interrupted_search_keeps_its_results_and_leaves_no_process(here):
    results = here / "r.jsonl"
    running, workers = started(results)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=20)
    assert stderr.strip().endswith(b"KeyboardInterrupt")
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert len(read(results).records) >= 3
    assert not read(results).torn


def test_a_dry_run_tells_the_space_and_needs_no_gpu(here):
    done = commands.kgen("tune", "gemm.toml", "--shape", SHAPE, "--dry-run")
    assert done.exit_code == 0
    assert "gemm at m=256, n=512, k=256\n" in done.stdout
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "candidates 18" in lines
    assert "shape the kernel does not take the shape 4" in lines
    assert "legal 8" in lines
    assert done.stdout.count("tile.m=") == 8
    assert list(here.glob("*.jsonl")) == []


def test_a_machine_without_a_gpu_is_told(here):
    told = refused("gemm.toml", "--shape", SHAPE, "-j", 1)
    assert told.startswith("error: nothing to measure on: ")
    assert "sees no NVIDIA GPU" in told
    assert "allowed: a machine with a GPU that kgen knows: NVIDIA Hopper" in told


def test_a_wrong_command_line_is_told(here):
    assert "error: --shape is missing\n  allowed: M,N,K" in refused("gemm.toml")
    for shape in ("4096", "a,b,c", "1,2,3,4", "-1,2,3"):
        told = refused("gemm.toml", "--shape", shape)
        assert f"error: --shape {shape!r} is no size\n" in told
    assert "one spec is tuned at a time" in refused("a.toml", "b.toml")
    told = refused("gemm.toml", "--shape", SHAPE, "--report", "gemm.toml")
    assert "--report gemm.toml does not end in .html" in told
    assert "-o goes with --merge alone" in refused("gemm.toml", "-o", "x")
    assert "no such file" in refused("none.toml", "--shape", SHAPE, code=5)


def test_a_shape_that_no_candidate_takes_is_told(here):
    told = refused("gemm.toml", "--shape", "100,512,256")
    assert (
        "error: gemm.toml: none of 18 candidates is legal and takes m=100, n=512, k=256"
        in told
    )
    assert "m = 100 is not a positive multiple of 64" in told


def test_a_product_of_nothing_is_refused(here):
    done = commands.kgen("tune", "gemm.toml", "--shape", "0,1,1", "--dry-run")
    assert done.exit_code == 2
    assert (
        "--shape '0,1,1' is a product of nothing\n  allowed: M,N,K of 1" in done.stderr
    )


def test_a_page_of_somebody_else_is_not_replaced(here):
    mine = Path("mine.html")
    mine.write_text("<html>mine</html>", "utf-8")
    Path("link.html").symlink_to(mine)
    for name in ("mine.html", "link.html"):
        options = ("--shape", "256,256,256", "--report", name)
        done = commands.kgen("tune", "gemm.toml", *options)
        assert (done.exit_code, done.stderr) == (
            5,
            f"error: {name} was not written by `kgen tune --report`\n"
            "  hint: name another file, or remove that one\n",
        )
    assert mine.read_text("utf-8") == "<html>mine</html>"


def test_a_family_is_refused(here):
    text = (
        SPEC.replace('"gemm"', '"gemm_{tile.k}"') + "\n[matrix]\ntile.k = [64, 128]\n"
    )
    (here / "gemm.toml").write_text(text)
    told = refused("gemm.toml", "--shape", SHAPE)
    assert "gemm.toml has a [matrix] of 2 specs; one kernel is tuned at a time" in told


def test_an_unknown_key_of_tune_is_told_with_its_line(here):
    (here / "gemm.toml").write_text(SPEC + "tile.q = [1]\n")
    told = refused("gemm.toml", "--shape", SHAPE, code=3)
    assert told.startswith("gemm.toml:17: KG003 unknown key tile.q in [tune]\n")


def test_a_file_that_holds_no_results_is_refused(here):
    (here / "r.jsonl").write_text("hello\n")
    told = refused("gemm.toml", "--shape", SHAPE, "--results", "r.jsonl", code=5)
    assert told.startswith("error: r.jsonl:1: not a result: ")


def test_another_operation_is_refused(here, monkeypatch):
    monkeypatch.setattr(session, "TUNED", ())
    told = refused("gemm.toml", "--shape", SHAPE)
    assert "matmul cannot be measured yet" in told
