"""The script that runs mutants on a GPU, on a CPU: what it makes of each fate."""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from mutants.catalogue import base, mutant
from oldest import newest_only
from verify_requests import request

pytestmark = newest_only

ROOT = Path(__file__).parents[2]
NOT_ON_THE_GPU_MACHINE = ("pydantic", "black", "platformdirs", "hypothesis")
HEAD = """import itertools, os, time
import jax
import jax.numpy as jnp
import numpy as np
count = itertools.count()
def matmul(a, b):
    product = jnp.dot(a, b, preferred_element_type=jnp.float32).astype(a.dtype)
"""
FATES = {
    "right": ("", "    return product\n"),
    "wrong silently": ("fault", "    return product.at[1, 2].add(1)\n"),
    "not bit-identical": (
        "fault",
        """    def disturb(x):
        return np.where((np.arange(x.shape[1]) < 5) & (next(count) == 2), 0, x)
    return jax.pure_callback(disturb, jax.ShapeDtypeStruct(product.shape, a.dtype), product)
""",
    ),
    "hang": (
        "fault",
        """    def sleep(x):
        time.sleep(600)
    return jax.pure_callback(sleep, jax.ShapeDtypeStruct(product.shape, a.dtype), product)
""",
    ),
    "error": ("fault", "    raise ValueError('n must be at most 64')\n"),
    "aborted": ("fault", "    os.write(2, b'F1129 Check failed'); os.abort()\n"),
}


@pytest.fixture(scope="module")
def script():
    path = ROOT / "benchmarks" / "mutants_gpu.py"
    spec = importlib.util.spec_from_file_location("mutants_gpu", path)
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def entry(fate):
    kind, body = FATES[fate]
    name = f"kernel_{fate.replace(' ', '_').replace('-', '_')}"
    asked = request(HEAD + body, sizes=((128, 192, 128),), name=name)
    return {
        "name": name,
        "group": "pipeline",
        "kind": kind,
        "schedule": "none",
        "digest": f"digest of {name}",
        "request": asked.to_json(),
    }


def options(directory, **changes):
    known = {
        "directory": directory,
        "out": directory / "out.json",
        "earlier": None,
        "match": "",
        "platform": "cpu",
        "jobs": 2,
        "runs": 3,
        "large": 256,
        "limit": 4.0,
        "budget": 200.0,
    }
    return argparse.Namespace(**(known | changes))


def test_tells_every_fate(script, tmp_path, capsys):
    entries = [entry(fate) for fate in FATES]
    (tmp_path / script.MANIFEST).write_text(json.dumps(entries))
    assert script.run(options(tmp_path)) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["machine"]["device"] == "cpu"
    assert [k["name"] for k in result["kernels"]] == [e["name"] for e in entries]
    found = dict(zip(FATES, result["kernels"], strict=True))
    told = {fate: (k["outcome"], k["detail"]) for fate, k in found.items()}
    size = "128 x 192 x 128"
    assert told == {
        "right": ("right", ""),
        "wrong silently": (
            "wrong silently",
            f"1 of {128 * 192} elements at {size} on small integers",
        ),
        "not bit-identical": (
            "not bit-identical",
            told["not bit-identical"][1],
        ),
        "hang": (
            "hang",
            "no sign within 4 s while running [128, 192, 128] small integers",
        ),
        "error": ("error", told["error"][1]),
        "aborted": (
            "error",
            "the process ended while compiling [128, 192, 128], signal 6: F1129 Check"
            " failed",
        ),
    }
    assert told["not bit-identical"][1].endswith(
        f"elements at {size} on small integers"
    )
    assert told["error"][1].startswith("ValueError: n must be at most 64; at kernel_")
    sizes = [(r["size"], r["inputs"], r["wrong"]) for r in found["right"]["results"]]
    assert sizes == [
        ([128, 192, 128], "small integers", 0),
        ([128, 192, 128], "normal values", 0),
        ([256, 384, 256], "small integers", 0),
    ]
    assert "kernels without a fault that are not right: none" in capsys.readouterr().out


def test_keeps_earlier_results_of_the_same_text(script, tmp_path):
    (tmp_path / script.MANIFEST).write_text(json.dumps([entry("right")]))
    earlier = tmp_path / "earlier.json"
    kept = {
        "name": entry("right")["name"],
        "kind": "",
        "digest": entry("right")["digest"],
        "outcome": "right",
        "detail": "kept",
    }
    earlier.write_text(json.dumps({"kernels": [kept]}))
    assert script.run(options(tmp_path, earlier=earlier)) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["kernels"] == [kept]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a GPU")
def test_stops_where_not_even_plain_things_run(script, tmp_path):
    runs = script.Run(options(tmp_path, platform="cuda"), tmp_path)
    first, second = (runs.outcome(entry("wrong silently")) for _ in range(2))
    assert first["outcome"] == second["outcome"] == "not run"
    assert first["detail"].startswith(
        "the GPU failed: the process ended while starting"
    )
    assert runs.broken


def test_starts_nothing_when_its_time_is_over(script, tmp_path):
    runs = script.Run(options(tmp_path, budget=-1.0), tmp_path)
    assert runs.outcome(entry("right")) == {
        "outcome": "not run",
        "detail": "out of time",
    }


def test_large_sizes_are_multiples_of_the_first_case(script):
    assert script.large_size(entry("right"), 4096) == [4096, 4224, 4096]
    assert script.large_size(entry("right"), 0) == [0, 0, 0]


def test_needs_no_package_that_the_gpu_machine_lacks():
    code = (
        "import sys\n"
        f"for name in {NOT_ON_THE_GPU_MACHINE}: sys.modules[name] = None\n"
        "sys.argv = ['mutants_gpu.py', 'run', '--help']\n"
        "import kgen.verify.gpu, kgen.verify.numerics, kgen.verify.repeats\n"
        "import mutant_on_gpu, mutants_gpu\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}", "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr


def test_knows_epilogues_and_gates(script, tmp_path):
    entries = [
        {**entry("right"), "name": name, "kind": kind, "request": asked.to_json()}
        for name, kind, asked in (
            ("right", "", base("chain_linear").request),
            ("wrong", "fault", mutant("chain_linear__bias_added_twice").request),
            ("gated", "", base("glu_silu").request),
        )
    ]
    (tmp_path / script.MANIFEST).write_text(json.dumps(entries))
    # An interpreted kernel takes its time, the more so on a machine that is busy.
    assert script.run(options(tmp_path, limit=100.0)) == 0
    found = json.loads((tmp_path / "out.json").read_text())["kernels"]
    assert [each["outcome"] for each in found] == ["right", "wrong silently", "right"]
    # A large product is prepared for what is a product and no more.
    assert [len(each["results"]) for each in found] == [2, 2, 2]
