"""`kgen bench` from end to end, but for the GPU: a CPU stands in for it."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest
from commands import kgen
from made import plan
from measure_stand_ins import SESSION, SWEPT, write_module
from oldest import newest_only

from kgen.emit.render import render_unformatted
from kgen.measure import bench, example, files, process, results, sweep
from kgen.verify import process as verifying

pytestmark = newest_only

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SHAPE = "128,192,64"
WITHOUT_GPU = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="there is a GPU"
)


@pytest.fixture
def _on_cpu(monkeypatch):
    """Lets workers measure on a CPU."""
    monkeypatch.setattr(bench, "SESSION", SESSION)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


def records(path):
    return {record.name: record for record in files.load(path).results}


GATED = '''"""silu(x @ w_gate) * (x @ w_up), made up.

    x       bfloat16[m, k]    m a multiple of 64, k of 32
    w_gate  bfloat16[k, n]    n a multiple of 64
    w_up    bfloat16[k, n]
    out     bfloat16[m, n]    accumulated in float32

    from gated import glu

    out = glu(x, w_gate, w_up)  # silu(x @ w_gate) * (x @ w_up)

Made for NVIDIA Hopper GPUs (sm_90a).
"""
import jax
import jax.numpy as jnp


def reference(x, w_gate, w_up):
    gate, up = (jnp.dot(x, w, preferred_element_type="float32") for w in (w_gate, w_up))
    return (jax.nn.silu(gate) * up).astype(x.dtype)


def glu(x, w_gate, w_up):
    return reference(x, w_gate, w_up)
'''


@pytest.mark.usefixtures("_on_cpu")
def test_a_gated_unit_is_timed_beside_the_best_of_xlas_forms(tmp_path):
    path, out = tmp_path / "gated.py", tmp_path / "new.json"
    path.write_text(GATED, "utf-8")
    peers = ("--peer", "xla", "--peer", "torch")
    done = kgen("bench", path, "--shape", SHAPE, *peers, "--rounds", 3, "--json", out)
    assert done.exit_code == 0, done
    (record,) = files.load(out).results
    assert record.status == results.MEASURED
    xla, torch = record.peers
    assert xla.configuration.startswith(("two products", "joined weights"))
    assert torch.detail == "it has no gated linear unit"
    # Two products: twice the work of one of this size.
    m, n, k = record.shape
    flops = record.timing.tflops * record.timing.median_us * 1e6
    assert flops == pytest.approx(4 * m * n * k, rel=0.3)


@pytest.mark.usefixtures("_on_cpu")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("glu(x, w_gate, w_up):", "glu(x, w_up, w_gate):"),
        (
            "return reference(x, w_gate, w_up)",
            "return reference(x, w_gate, w_up).at[64:, 64:].set(0)",
        ),
    ],
)
def test_a_wrong_gated_unit_is_not_timed(tmp_path, old, new):
    path, out = tmp_path / "gated.py", tmp_path / "new.json"
    assert old in GATED
    path.write_text(GATED.replace(old, new), "utf-8")
    kgen("bench", path, "--shape", SHAPE, "--rounds", 3, "--json", out)
    (record,) = files.load(out).results
    assert record.status == results.WRONG
    assert record.timing is None


FLOAT8 = '[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
STEPS = '[[epilogue]]\nop = "residual"\n[[epilogue]]\nop = "bias"\nalong = "m"\n'
COMBINED = {
    "batch": (
        f"[shapes]\nbatch = true\n{STEPS}",
        "2x3x128,128,64",
        "a, b, residual, bias",
    ),
    "scales": (
        f'[kernel]\nlayout = "nt"\n{FLOAT8}[scales]\nblock = 128\n{STEPS}'
        "[schedule]\nwarp_specialized = true\n",
        "128,128,256",
        "a, b, a_scale, b_scale, residual, bias",
    ),
}


@pytest.mark.usefixtures("_on_cpu")
@pytest.mark.parametrize("name", COMBINED)
def test_an_epilogue_with_a_batch_or_scales_is_measured(tmp_path, name):
    tables, shape, names = COMBINED[name]
    text = render_unformatted(plan(tmp_path, tables))
    # Its reference stands for the kernel, which runs on a GPU alone.
    modules = {
        "right": f"return reference({names})",
        "without": f"return reference({names}) - bias[..., None].astype(residual.dtype)",
        "turned": f"return reference({names.replace('residual', 'residual[..., ::-1]')})",
    }
    paths = [tmp_path / f"{each}.py" for each in modules]
    for path, body in zip(paths, modules.values(), strict=True):
        path.write_text(f"{text}\n\ndef matmul({names}):\n    {body}\n", "utf-8")
    out, peers = tmp_path / "new.json", ("--peer", "xla", "--peer", "torch")
    done = kgen(
        *("bench", *paths, "--shape", shape, *peers, "--rounds", 3, "--json", out)
    )
    assert done.exit_code == 4, done
    found = records(out)
    assert {each: record.status for each, record in found.items()} == {
        "right": "measured",
        "without": "wrong",
        "turned": "wrong",
    }
    right = found["right"]
    assert right.checks[0] == "small integers as the reference in XLA, bit for bit"
    xla, torch = right.peers
    assert xla.timing is not None
    assert torch.detail == "it has neither epilogue nor scales"
    assert found["turned"].detail.startswith("on small integers: in 32 rows, 0 to 127")


@pytest.mark.usefixtures("_on_cpu")
def test_a_module_without_a_reference_that_needs_one_is_not_measured(tmp_path):
    text = GATED.replace("reference(", "another(")
    (tmp_path / "gated.py").write_text(text, "utf-8")
    out = tmp_path / "new.json"
    kgen("bench", tmp_path / "gated.py", "--shape", SHAPE, "--json", out)
    (record,) = files.load(out).results
    assert record.status == "failed"
    assert "the module has no function `reference`, which says what" in record.detail


@pytest.mark.usefixtures("_on_cpu")
def test_a_batch_is_timed_beside_that_of_xla(tmp_path):
    path = write_module(tmp_path)
    text = path.read_text("utf-8")
    path.write_text(
        text.replace("[m, k]", "[..., m, k]")
        .replace("[k, n]", "[..., k, n]")
        .replace("[m, n]", "[..., m, n]")
        .replace("jnp.dot", "jnp.matmul"),
        "utf-8",
    )
    out, shape = tmp_path / "new.json", f"3x{SHAPE}"
    peers = ("--peer", "xla", "--peer", "jax-example")
    done = kgen("bench", path, "--shape", shape, *peers, "--rounds", 3, "--json", out)
    assert done.exit_code == 0, done
    (record,) = files.load(out).results
    assert (record.status, record.batch, record.size) == ("measured", (3,), shape)
    xla, of_example = record.peers
    assert xla.timing is not None
    assert of_example.detail == "it takes no batch"
    # What takes no batch is not measured with one.
    path = write_module(tmp_path, name="of_two")
    done = kgen("bench", path, "--shape", shape)
    assert "takes no batch" in done.stderr


@pytest.mark.usefixtures("_on_cpu")
@pytest.mark.parametrize(("dtype", "layout"), [("bfloat16", "nn"), ("float16", "nt")])
def test_a_right_kernel_is_timed_in_turns_with_its_peers(tmp_path, dtype, layout):
    path = write_module(tmp_path, dtype=dtype, layout=layout)
    out = tmp_path / "new.json"
    done = kgen(
        *("bench", path, "--shape", SHAPE, "--rounds", 4, "--json", out),
        *("--peer", "torch", "--peer", "xla", "--plot", tmp_path / "drawn"),
    )
    assert done.exit_code == 0, done
    document = files.load(out)
    (record,) = document.results
    assert (document.rounds, document.machine.device) == (4, "cpu")
    assert document.machine.jax == jax.__version__
    assert (record.status, record.layout, record.operand_dtype) == (
        *("measured", layout),
        dtype,
    )
    assert record.checks == (
        "small integers as XLA's product, bit for bit",
        "normal values within the tolerance of float64 in 32 rows",
        "the same bits in 20 runs, into memory that was NaN",
    )
    assert len(record.timing.us) == 4
    torch, xla = record.peers
    assert (torch.name, torch.timing, torch.ratio) == ("torch", None, None)
    assert torch.detail.startswith("PyTorch ")
    assert len(xla.timing.us) == 4
    assert xla.ratio == pytest.approx(
        xla.timing.median_us / record.timing.median_us, rel=1e-3
    )
    assert f"{record.timing.median_us:.1f}" in done.stdout
    assert f"{path} at {SHAPE}: torch not measured: PyTorch " in done.stderr
    drawn = sorted(p.name for p in (tmp_path / "drawn").iterdir())
    assert drawn == ["ratios.svg", "roofline.svg"]


@pytest.mark.usefixtures("_on_cpu")
def test_a_kernel_that_is_not_right_is_never_timed(tmp_path):
    bodies = {
        "wrong": "product = product.at[3, 5].add(1)",
        # One element of many rows that no sample sees.
        "unwritten": "product = product.at[-2, -1].set(jnp.nan)",
        "rounded": "product = product.astype(jnp.float8_e4m3fn)",
        "raises": 'raise RuntimeError("no luck")',
        "aborts": "os.abort()",
        "other": "return product",
    }
    modules = [write_module(tmp_path, name, body=body) for name, body in bodies.items()]
    out = tmp_path / "new.json"
    done = kgen("bench", *modules, "--shape", SHAPE, "--rounds", 3, "--json", out)
    assert done.exit_code == 4, done
    found = records(out)
    assert list(found) == list(bodies)
    assert not any(record.timing or record.peers for record in found.values())
    told = {name: (r.status, r.detail) for name, r in found.items()}
    assert told["wrong"][0] == "wrong"
    assert told["wrong"][1].startswith(
        "on small integers: 1 of 24576 elements are wrong, the first at [3, 5]: got "
    )
    assert "they are NaN, as memory that was never written" in told["unwritten"][1]
    assert told["rounded"][0] == "wrong"
    assert told["raises"][0] == "failed"
    assert told["raises"][1].startswith("RuntimeError: no luck; at raises.py:")
    assert told["aborts"] == ("failed", "tracing: the worker was ended by SIGABRT")
    assert told["other"] == (
        "wrong",
        "returns float32[128, 192], expected bfloat16[128, 192]",
    )
    for name, (status, detail) in told.items():
        assert f"{tmp_path / name}.py at {SHAPE}: {status}: {detail}" in done.stderr


@pytest.mark.usefixtures("_on_cpu")
def test_a_kernel_that_changes_from_run_to_run_is_not_timed(tmp_path):
    body = (
        "import jax, itertools, numpy as np\n"
        "    count = itertools.count()\n"
        "    def disturb(x):\n"
        "        x = np.array(x); x[1, 2] += next(count) > 5; return x\n"
        "    product = jax.pure_callback(disturb, product, product)"
    )
    path = write_module(tmp_path, body=body)
    out = tmp_path / "new.json"
    assert kgen("bench", path, "--shape", SHAPE, "--json", out).exit_code == 4
    (record,) = files.load(out).results
    assert record.status == "wrong"
    assert "on normal values: not the same bits in every run: " in record.detail


@pytest.mark.usefixtures("_on_cpu")
def test_a_dispatch_module_is_measured_with_the_kernel_that_it_picks(tmp_path):
    module = ROOT / "generated" / "matmul_h200.py"
    for name in re.findall(r"^import (bf16_\w+)$", module.read_text("utf-8"), re.M):
        body = "pass" if name == "bf16_64x128_small" else f'raise OSError("{name}")'
        path = write_module(tmp_path, name, body=body)
        text = path.read_text("utf-8").replace("(a, b):", "(a, b, interpret=None):")
        path.write_text(text, "utf-8")
    path, out = shutil.copy(module, tmp_path), tmp_path / "new.json"
    shapes = ("--shape", "64,128,256", "--shape", "512,4096,4096")
    done = kgen("bench", path, *shapes, "--rounds", 3, "--json", out)
    assert done.exit_code == 4, done
    measured, failed = files.load(out).results
    assert (measured.name, measured.status) == ("matmul_h200", "measured")
    assert failed.detail.startswith("OSError: bf16_128x128_raster; at ")


@pytest.mark.usefixtures("_on_cpu")
def test_a_kernel_that_hangs_is_ended_and_the_next_is_measured(tmp_path):
    hangs = write_module(tmp_path, "hangs", body="time.sleep(600)")
    fine = write_module(tmp_path, "fine")
    out = tmp_path / "new.json"
    start = time.monotonic()
    done = kgen(
        *("bench", hangs, fine, "--shape", SHAPE, "--rounds", 3, "--json", out),
        *("--timeout", 12),
    )
    assert time.monotonic() - start < 90
    assert done.exit_code == 4
    found = records(out)
    assert found["hangs"].detail == "no result within 12 s (tracing)"
    assert found["fine"].status == "measured"


@pytest.mark.usefixtures("_on_cpu")
def test_sizes_that_a_module_refuses(tmp_path):
    path = write_module(tmp_path)
    done = kgen("bench", path, "--shape", "100,64,32")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: --shape '100,64,32': m = 100 is not a positive multiple of 64, as"
        f" {path} needs it\n"
    )
    # What its docstring does not say.
    done = kgen("bench", path, "--shape", "640,64,32")
    assert done.exit_code == 2
    assert (
        f"{path} at 640,64,32: refused: ValueError: m must not be 640, got 640"
        in done.stderr
    )


@pytest.mark.usefixtures("_on_cpu")
def test_a_level_of_verification_that_does_not_pass_ends_it(tmp_path):
    out = tmp_path / "new.json"
    path = write_module(tmp_path)
    if jax.default_backend() != "cpu":
        pytest.skip("there is a GPU")
    done = kgen("bench", path, "--shape", SHAPE, "--verify", "--json", out)
    assert done.exit_code == 4
    (record,) = files.load(out).results
    imported, gpu = record.verification
    assert (imported.status, gpu.level, gpu.status) == ("passed", "gpu", "not_run")
    assert record.status == "failed"
    assert record.detail.startswith("kgen verify: gpu not_run: not run on a gpu: jax ")


@WITHOUT_GPU
def test_without_a_gpu_nothing_is_measured(tmp_path):
    out = tmp_path / "new.json"
    path = write_module(tmp_path)
    done = kgen("bench", path, "--shape", SHAPE, "--json", out)
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: nothing to measure on: jax {jax.__version__} sees no NVIDIA GPU, only"
        " cpu\n  allowed: a machine with a GPU that kgen knows: NVIDIA Hopper (sm_90a)\n"
        "  hint: `kgen doctor` tells what JAX sees; `kgen verify` proves kernels on a"
        " CPU\n"
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("M",), "Missing option '--shape', such as --shape 4096,4096,4096."),
        (
            ("M", "--shape", "1,2"),
            "error: --shape '1,2' is not three sizes, as a matmul has them\n",
        ),
        (
            ("M", "--shape", SHAPE, "--peer", "cublas"),
            "error: there is no peer 'cublas'\n  allowed: xla, jax-example, torch\n",
        ),
        (
            ("M", "--shape", SHAPE, "--json", "missing/new.json"),
            "--json missing/new.json: there is no directory missing",
        ),
        (("new.json", "--shape", SHAPE), "--compare OLD.json new.json"),
        (("--compare", "missing.json", "M"), "error: missing.json cannot be read: No"),
        (
            ("FUNCTION", "--shape", "float16[64,64]"),
            "is no matrix product, which is all that kgen bench measures\n",
        ),
        (
            ("FUNCTION", "--shape", "64,0,64"),
            "error: --shape '64,0,64' is a product of nothing\n",
        ),
        (("OTHER", "--shape", SHAPE), "does not say what it computes: "),
        (("M", "--shape", SHAPE, "--rounds", "2"), "2 is not in the range x>=3."),
        (("M", "--shape", SHAPE, "--timeout", "nan"), "nan is not"),
    ],
)
def test_what_cannot_be_asked(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_module(tmp_path)
    tmp_path.joinpath("other.py").write_text("def softmax(x): return x\n", "utf-8")
    names = {"M": "made_up.py", "FUNCTION": "other.py:softmax", "OTHER": "other.py"}
    done = kgen("bench", *(names.get(each, each) for each in arguments))
    assert done.exit_code in (2, 5)
    assert message in done.stderr


@pytest.mark.usefixtures("_on_cpu")
def test_slower_kernels_end_with_an_exit_code(tmp_path, monkeypatch):
    path = write_module(tmp_path)
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    monkeypatch.setenv("STAND_IN_US", "100")
    kept = (*verifying.KEPT_VARIABLES, "STAND_IN_US")
    monkeypatch.setattr(verifying, "KEPT_VARIABLES", kept)
    run = ("bench", path, "--shape", SHAPE, "--rounds", 3)
    assert kgen(*run, "--json", old).exit_code == 0
    monkeypatch.setenv("STAND_IN_US", "120")
    # Everything that was measured is measured again.
    done = kgen("bench", "--compare", old, "--rounds", 3, "--json", new)
    assert done.exit_code == 1
    row = ["made_up", SHAPE, "100.0", "120.0", "+20.0%", "0.5%", "+20.0%", "slower"]
    assert row in [line.split() for line in done.stdout.splitlines()]
    # The same from files alone, and the other way round.
    assert kgen("bench", "--compare", old, new).exit_code == 1
    assert kgen("bench", "--compare", new, old).exit_code == 0
    # Of another machine.
    other = json.loads(old.read_text())
    other["machine"]["device"] = "NVIDIA H100"
    old.write_text(json.dumps(other))
    done = kgen("bench", "--compare", old, new)
    assert done.exit_code == 2
    assert "times of different GPUs cannot be compared" in done.stderr


BLOCK = """
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("black", "pydantic", "platformdirs"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())
"""
MISSING = """
for name in ("black", "pydantic", "platformdirs"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise AssertionError(name)
"""
RUN = """
import sys
from kgen.cli import cli
from kgen.measure import bench
bench.SESSION = {session!r}
sys.exit(cli.main(sys.argv[1:], standalone_mode=False))
"""


def test_modules_are_measured_without_black_pydantic_and_platformdirs(tmp_path):
    blocking = tmp_path / "blocking"
    blocking.mkdir()
    # Every Python that starts with this on its path, workers too.
    blocking.joinpath("sitecustomize.py").write_text(BLOCK, "utf-8")
    write_module(tmp_path)
    path = os.pathsep.join(map(str, (blocking, TESTS, ROOT)))
    done = subprocess.run(
        [
            *(sys.executable, "-c", MISSING + RUN.format(session=SESSION)),
            *("bench", "made_up.py", "--shape", SHAPE, "--rounds", "3"),
            *("--json", "new.json", "--plot", "drawn"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert files.load(tmp_path / "new.json").results[0].status == "measured"


def test_the_sweep_goes_on_after_what_hangs_and_what_dies(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    found = sweep.run(
        SWEPT,
        session="measure_stand_ins:sweeping",
        arch="sm_90a",
        budget=240,
        limit=25,  # Its first use of the device takes a while on a busy machine.
    )
    assert [(each.us, each.detail.partition(": got")[0]) for each in found.tried] == [
        (None, "no result within 25 s (compiling)"),
        (None, "compiling: the worker was ended by SIGABRT"),
        (None, "RuntimeError: planted"),
        (None, "wrong: 8192 of 8192 elements are wrong, the first at [0, 0]"),
        (20.0, ""),
        (10.0, ""),
    ]
    assert [example.Example(**each) for each in found.finalists] == [
        example.examples(SWEPT)[index] for index in (5, 4)
    ]
    assert found.note == "6 of 6 configurations tried"


def test_the_best_of_the_sweep_are_timed_in_turns_with_the_kernel(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setattr(bench, "SESSION", "measure_stand_ins:sweeping")
    found = example.examples(SWEPT)
    tried = results.Tried(configuration=str(found[0]), us=None, detail="it hangs")
    asked = []

    def swept(problem, **_):
        asked.append(problem)
        finalists = tuple(dataclasses.asdict(found[index]) for index in (5, 4))
        return sweep.Sweep(finalists=finalists, tried=(tried,), note="6 of 6 tried")

    monkeypatch.setattr(sweep, "run", swept)
    modules = [write_module(tmp_path, name) for name in ("one", "two")]
    out = tmp_path / "new.json"
    shape = ",".join(map(str, SWEPT.shape))
    done = kgen(
        *("bench", *modules, "--shape", shape, "--rounds", 3, "--json", out),
        *("--peer", "jax-example"),
    )
    assert done.exit_code == 0, done
    # The second kernel has the same product.
    assert asked == [SWEPT]
    for record in files.load(out).results:
        (peer,) = record.peers
        assert peer.configuration == str(found[5])
        assert peer.ratio == 1.0
        assert (peer.detail, peer.tried) == ("6 of 6 tried", (tried,))


@pytest.mark.parametrize("peer", ["xla", "jax-example"])
def test_ctrl_c_ends_it_at_once(tmp_path, peer):
    """Kernels that hang: the one that is measured, or the first of the sweep."""
    write_module(tmp_path, body="pass" if peer == "jax-example" else "time.sleep(600)")
    running = subprocess.Popen(
        [
            *(sys.executable, "-c", RUN.format(session="measure_stand_ins:sweeping")),
            *("bench", "made_up.py", "--shape", ",".join(map(str, SWEPT.shape))),
            *("--peer", peer, "--sweep-budget", "600"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (TESTS, ROOT)))},
        stderr=subprocess.PIPE,
        text=True,
    )
    with running:
        wait_for_children(running.pid)
        running.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert running.stderr.read() == "interrupted\n"
    assert time.monotonic() - start < 10
    assert running.returncode == 130
    assert not children(running.pid)


def wait_for_children(parent):
    """Waits until a worker is busy: the one that probes has ended by then."""
    seen = set()
    end = time.monotonic() + 100
    while len(seen) < 2 and time.monotonic() < end:
        seen |= children(parent)
        time.sleep(0.1)
    assert len(seen) > 1
    time.sleep(1)


def children(parent):
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.add(stat.parent.name)
    return found


def test_the_sweep_ends_with_its_budget(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    start = time.monotonic()
    found = sweep.run(SWEPT, session=SESSION, arch="sm_90a", budget=0.5)
    assert time.monotonic() - start < 20
    assert found.detail == "0 of 6 configurations tried in 0.5 s, none ran"


def test_a_worker_that_cannot_measure_says_so():
    job = {"task": "probe", "session": "kgen.measure.worker:on_gpu", "arch": "sm_1"}
    with pytest.raises(
        process.RefusedError, match="nothing to measure on: sm_1 is not"
    ):
        list(process.events(job, limit=60))
