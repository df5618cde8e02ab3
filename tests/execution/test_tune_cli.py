"""`kgen tune` as a user meets it; where it measures, with a stand-in for the GPU."""

import html.parser
import json
import signal
import sys
import tomllib
from pathlib import Path

import commands
import pytest
from oldest import newest_only
from tune_searches import SPEC, TESTS, started

from kgen.cli import tune as command
from kgen.errors import TemplateError
from kgen.tune import session
from kgen.tune.store import read
from kgen.tune.tasks import Limits, PoolError

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


def tune(meter="Rendered", *, batch=(), templates=(), limit=None, **how):
    """Runs all of the command but for the meter."""
    started = session.now()
    subject = session.read(Path("gemm.toml"), (256, 512, 256), batch)
    options = session.Options(
        results=Path("gemm.tune.jsonl"),
        budget=120,
        jobs=2,
        limit=limit,
        limits=Limits(start=60, prepare=60, measure=5),
        templates=templates,
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


def test_what_is_beyond_the_limit_is_told_as_left(here, capsys):
    tune(limit=3, page=Path("page.html"))
    out, _ = capsys.readouterr()
    (line,) = (line for line in out.splitlines() if "not tried" in line)
    assert line.split()[-1] == "5"
    assert "3 tried, 5 left." in Path("page.html").read_text()


WS = "[schedule]\nwarp_specialized = true\n"
TILES = "[tune]\ntile.m = [64, 128]\npipeline.max_concurrent_steps = [2, 3]\n"
FLOAT8 = '[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
MORE = {
    # Key, and what of a result's key is told in the file.
    "glu": (
        f'op = "glu"\nactivation = "gelu"\n{WS}persistent = true\n',
        {"activation": "gelu"},
    ),
    "epilogue": (
        f'op = "matmul"\n[[epilogue]]\nop = "bias"\n[[epilogue]]\nop = "silu"\n{WS}',
        {"epilogue": 'bias(bias, along="n") of bfloat16; silu()'},
    ),
    "scales": (
        f'op = "matmul"\nlayout = "nt"\n{FLOAT8}[scales]\nblock = 128\n{WS}',
        {"scale_block": 128},
    ),
    "scales, epilogue": (
        f'op = "matmul"\nlayout = "nt"\n{FLOAT8}[scales]\nblock = 128\n'
        f'[[epilogue]]\nop = "relu"\n{WS}',
        {"scale_block": 128, "epilogue": "relu()"},
    ),
    "edge": (f'op = "matmul"\n[shapes]\nedge = "any"\n{WS}', {"edge": "any"}),
    "batch": (
        f'op = "matmul"\n[shapes]\nbatch = true\n{WS}',
        {"batch": [4, 2]},
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_whatever_can_be_measured_is_tuned(here, capsys, name):
    text, told = MORE[name]
    spec = Path("gemm.toml")
    spec.write_text(f'[kernel]\nname = "gemm"\n{text}{TILES}')
    batch = (4, 2) if name == "batch" else ()
    tune(batch=batch, write=True, page=Path("page.html"))
    out, err = capsys.readouterr()
    size = f"{'batch=[4, 2], ' if batch else ''}m=256, n=512, k=256"
    assert f"gemm at {size}\n" in out
    assert f"<h1>gemm at {size}</h1>" in Path("page.html").read_text()
    assert "The winner is in gemm.toml.\n" in out
    written = tomllib.loads(spec.read_text())
    assert (written["tile"]["m"], written["pipeline"]) == (
        128,
        {"max_concurrent_steps": 2},
    )
    lines = Path("gemm.tune.jsonl").read_text().splitlines()
    old = ("op", "dtypes", "layout", "shape", "arch", "device", "jax", "template")
    keys = [json.loads(line)["key"] for line in lines]
    assert {*keys[0]} == {*old, *told}
    assert told.items() <= keys[0].items()
    # A second run goes on from what the file holds, and so does one from merged files.
    merged = commands.kgen("tune", "--merge", "gemm.tune.jsonl", "-o", "merged.jsonl")
    assert merged.exit_code == 0
    Path("merged.jsonl").replace("gemm.tune.jsonl")
    tune(batch=batch, write=True)
    out, err = capsys.readouterr()
    assert "The winner was already in gemm.toml.\n" in out
    assert "measuring: 2 candidates, 2 of them known\n" in err
    assert "[1/2]" not in err


def test_a_template_without_a_reference_is_told_at_once(here):
    text, _ = MORE["glu"]
    Path("gemm.toml").write_text(f'[kernel]\nname = "gemm"\n{text}{TILES}')
    own = here / "own"
    own.mkdir()
    (own / "glu.py.jinja").write_text("def glu(x, w_gate, w_up):\n    return x\n")
    told = "^no reference to compare with: AttributeError: .*'reference'$"
    with pytest.raises(PoolError, match=told):
        tune(templates=(own,))
    (own / "glu.py.jinja").write_text("{{ nothing_such }}\n")
    with pytest.raises(TemplateError, match="nothing_such"):
        tune(templates=(own,))


def test_a_batch_is_a_dry_run_too(here):
    text = SPEC.replace("[tile]", "[shapes]\nbatch = true\n\n[tile]")
    Path("gemm.toml").write_text(text)
    done = commands.kgen("tune", "gemm.toml", "--shape", f"8x3x{SHAPE}", "--dry-run")
    assert done.exit_code == 0
    assert "gemm at batch=[8, 3], m=256, n=512, k=256\n" in done.stdout
    assert "[kernel]" in Path("gemm.toml").read_text()


@pytest.mark.parametrize("op", ["matmul", "glu"])
def test_a_batch_of_a_kernel_that_takes_none_is_refused(here, op):
    text = f'[kernel]\nname = "gemm"\nop = "{op}"\n{WS}persistent = true\n'
    Path("gemm.toml").write_text(text)
    done = commands.kgen("tune", "gemm.toml", "--shape", "4x256,256,256", "--dry-run")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: gemm.toml: gemm takes no batch\n"
        "  allowed: M,N,K such as 4096,4096,4096, or shapes.batch = true\n",
    )


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("65536x64,64,64", "65,536 matrices are more than 65,535"),
        (
            "4194304,64,64",
            "m = 4,194,304 is more than 4,194,240, the most without a raster",
        ),
    ],
)
def test_candidates_that_a_grid_cannot_launch_are_left_out(here, shape, why):
    text = '[kernel]\nname = "gemm"\nop = "matmul"\n[shapes]\nbatch = true\n'
    Path("gemm.toml").write_text(f"{text}[tune]\ntile.m = [64]\ntile.n = [64]\n")
    done = commands.kgen("tune", "gemm.toml", "--shape", shape, "--dry-run")
    assert done.exit_code == 2
    assert why in done.stderr


def test_stores_of_the_spec_do_not_bind_the_default_space(here):
    text = f'[kernel]\nname = "gemm"\nop = "matmul"\n{WS}[tile]\nn = 200\n'
    Path("gemm.toml").write_text(f'{text}[store]\nn = 40\n[shapes]\nedge = "any"\n')
    done = commands.kgen("tune", "gemm.toml", "--shape", "512,512,512", "--dry-run")
    assert done.exit_code == 0
    assert "KG607" not in done.stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--dry-run", "--write"], "--dry-run measures nothing"),
        (["--dry-run", "--report", "r.html"], "--dry-run measures nothing"),
        (["--merge", "-o", "both.jsonl"], "--merge puts files together"),
    ],
)
def test_options_that_would_be_ignored_are_refused(here, options, why):
    Path("gemm.toml").write_text(f'[kernel]\nname = "gemm"\nop = "matmul"\n{WS}')
    done = commands.kgen("tune", "gemm.toml", "--shape", "512,512,512", *options)
    assert done.exit_code == 2
    assert why in done.stderr
    assert not Path("r.html").exists()


def test_where_nothing_is_legal_a_hint_says_what_to_look_at(here):
    text = f'[kernel]\nname = "gemm"\nop = "matmul"\n{WS}[test]\nshapes = [[7, 7, 7]]\n'
    Path("gemm.toml").write_text(text)
    done = commands.kgen("tune", "gemm.toml", "--shape", "512,512,512", "--dry-run")
    assert done.exit_code == 2
    assert "hint: what the spec says elsewhere stays in force" in done.stderr


def test_a_dispatch_is_refused(here):
    text = (
        '[kernel]\nname = "pick"\nop = "dispatch"\n[[bucket]]\nkernel = "gemm"\n'
        "shapes = [[256, 512, 256]]\n"
    )
    Path("pick.toml").write_text(text)
    Path("gemm.toml").write_text(SPEC.partition("[tune]")[0])
    assert refused("pick.toml", "--shape", SHAPE) == (
        "error: pick.toml: a dispatch has no schedule to tune: it picks among kernels\n"
        "  allowed: matmul, glu\n"
        "  hint: tune the specs of the kernels that it names\n"
    )


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
    for shape in ("4096", "a,b,c", "1,2,3,4", "-1,2,3", "x1,2,3", "2x"):
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
    for shape in ("0,1,1", "0x64,64,64"):
        done = commands.kgen("tune", "gemm.toml", "--shape", shape, "--dry-run")
        assert done.exit_code == 2
        told = f"--shape {shape!r} is a product of nothing\n  allowed: M,N,K of 1"
        assert told in done.stderr


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
