"""Runs every generated module on a GPU and writes down what came out.

    python benchmarks/gpu_proof.py --out benchmarks/results/gpu_proof.json

Each module runs in a process of its own with a time limit: a kernel that deadlocks or
aborts is a result. Only jax, numpy and this directory's parent are needed. For every
size:

  exact     small integers give the float64 product, rounded once to the output's dtype
  close     iid normal operands stay within the tolerance of the standalone test
  same      twenty runs on the same operands give the same bits
  written   the output's memory held NaN before, and holds none after
  allclose  np.testing.assert_allclose(result, a @ b) where a @ b is XLA's product; told,
            not required: XLA may add in another order

Times are medians of kernel time (CUPTI) over rounds that alternate with XLA's product
of the same operands. They are for orientation: these kernels are the plain schedules.
"""

import argparse
import contextlib
import functools
import importlib
import io
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from kgen.verify import ptxas  # noqa: E402

TILES = ((1, 2, 7), (2, 1, 3), (3, 7, 1), (7, 3, 2))
RUNS = 20
ROUNDS, ITERATIONS = 5, 10
SIGNIFICAND = {"float16": 10, "bfloat16": 7, "float32": 23}
# As a @ b of `np.testing.assert_allclose(matmul(a, b), a @ b)` in the docs of Pallas.
LARGE = {"float16": (16896, 512, 640)}
TIMED = (4096, 4096, 4096)


def sizes(module):
    """Yields (m, n, k) from one tile up to 4096 and the size of Pallas's own docs."""
    tile = (module.TILE_M, module.TILE_N, module.TILE_K)
    for counts in TILES:
        yield tuple(c * t for c, t in zip(counts, tile, strict=True))
    dtype = module.DTYPE.dtype.name
    for size in (LARGE.get(dtype, (1024, 1024, 1024)), TIMED):
        # To the next multiple of the tile.
        yield tuple(-(-s // t) * t for s, t in zip(size, tile, strict=True))


def is_transposed(module):
    return "@ B.T" in module.matmul.__doc__


def draw(module, rng, size, kind):
    import jax.numpy as jnp

    m, n, k = size
    shapes = ((m, k), (n, k) if is_transposed(module) else (k, n))
    for shape in shapes:
        if kind == "integers":
            values = rng.integers(-3, 4, shape)
        else:
            values = rng.standard_normal(shape, "float32")
        yield jnp.asarray(values, module.DTYPE)


def check(module, m, n, k):
    """Returns the outcome of every check at one size."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    matmul = jax.jit(module.matmul)
    rng = np.random.default_rng([m, n, k])

    def product(a, b):
        # In float64 on the GPU: the host would take longer than all kernels together.
        with jax.enable_x64(True):
            a, b = a.astype(jnp.float64), b.astype(jnp.float64)
            b = b.T if is_transposed(module) else b
            dot = functools.partial(jnp.dot, precision="highest")
            exact, size = dot(a, b), dot(jnp.abs(a), jnp.abs(b))
            return np.asarray(exact), np.asarray(size)

    a, b = draw(module, rng, (m, n, k), "integers")
    result = matmul(a, b)
    expected = jnp.asarray(product(a, b)[0], jnp.float32).astype(result.dtype)
    wrong = int(jnp.sum(result != expected))

    a, b = draw(module, rng, (m, n, k), "normal")
    del result
    poison = jnp.full((m, n), jnp.nan, expected.dtype).block_until_ready()
    poison.delete()  # The next output is likely to get this memory.
    result = matmul(a, b)
    exact, size = product(a, b)
    out = np.asarray(result, np.float64)
    tolerance = 2.0 ** -(SIGNIFICAND[result.dtype.name] + 1) * np.abs(exact)
    if a.dtype == jnp.float32:
        tolerance += 2.0**-9 * size
    else:
        tolerance += 2.0**-23 * np.sqrt(k) * size
    same = all(bool(jnp.all(matmul(a, b) == result)) for _ in range(RUNS))

    xla = a @ (b.T if is_transposed(module) else b)
    try:
        np.testing.assert_allclose(result, xla)
        allclose = True
    except AssertionError:
        allclose = False
    return {
        "m": m,
        "n": n,
        "k": k,
        "exact": wrong == 0,
        "wrong_elements": wrong,
        "close": bool(np.all(np.abs(out - exact) <= tolerance)),
        "largest_share_of_tolerance": float(np.max(np.abs(out - exact) / tolerance)),
        "same": same,
        "written": bool(np.all(np.isfinite(out))),
        "allclose_to_xla": allclose,
    }


def time_against_xla(module, m, n, k):
    """Returns medians of kernel time in microseconds, ours and XLA's."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental.mosaic.gpu import profiler

    a, b = draw(module, np.random.default_rng(0), (m, n, k), "normal")
    ours = jax.jit(module.matmul)
    transposed = is_transposed(module)
    xla = jax.jit(lambda a, b: jnp.dot(a, b.T if transposed else b))
    times = {"ours": [], "xla": []}
    for f in (ours, xla):
        f(a, b).block_until_ready()
    for _ in range(ROUNDS):
        for name, f in (("ours", ours), ("xla", xla)):
            _, runs = profiler.measure(f, iterations=ITERATIONS)(a, b)
            times[name] += [1000 * run for run in runs]
    ours_us, xla_us = (statistics.median(times[name]) for name in ("ours", "xla"))
    return {
        "m": m,
        "n": n,
        "k": k,
        "us": round(ours_us, 2),
        "xla_us": round(xla_us, 2),
        "xla_over_ours": round(xla_us / ours_us, 3),
        "tflops": round(2 * m * n * k / ours_us / 1e6, 1),
    }


def run_one(directory, name):
    """Prints the outcome of one module as JSON on the last line."""
    sys.path.insert(0, str(directory))
    module = importlib.import_module(name)
    outcome = {"sizes": [check(module, *size) for size in sizes(module)]}
    *_, timed = sizes(module)
    with contextlib.redirect_stdout(io.StringIO()):
        outcome["time"] = time_against_xla(module, *timed)
    print(json.dumps(outcome))


def told_by_ptxas(text):
    """Returns registers, spilled bytes and warnings that ptxas told."""
    report = ptxas.parse(text)
    spilled = [kernel.spill_store_bytes for kernel in report.kernels]
    return {
        "registers": report.registers,
        "spilled_bytes": max(spilled, default=None),
        "warnings": sorted(map(str, report.messages)),
    }


def run_in_process(directory, name, limit):
    command = [sys.executable, __file__, "--module", name, "--dir", str(directory)]
    environment = {**os.environ, "MOSAIC_GPU_DUMP_PTXAS": "1"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result within {limit} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"error": f"exit {done.returncode}: " + "\n".join(lines[-5:])}
    outcome = json.loads(done.stdout.strip().splitlines()[-1])
    return {**outcome, "ptxas": told_by_ptxas(done.stdout + done.stderr)}


def is_right(outcome):
    checks = ("exact", "close", "same", "written")
    return "error" not in outcome and all(
        size[check] for size in outcome["sizes"] for check in checks
    )


def summary(name, outcome):
    """Returns one line about a module."""
    verdict = "right" if outcome["right"] else "WRONG"
    if "error" in outcome:
        return f"{name:26} {verdict}  {outcome['error']}"
    time, told = outcome["time"], outcome["ptxas"]
    xla = sum(size["allclose_to_xla"] for size in outcome["sizes"])
    return (
        f"{name:26} {verdict}  {time['us']:8.1f} us, XLA / ours"
        f" {time['xla_over_ours']:.3f}, {told['registers']} registers,"
        f" {told['spilled_bytes']} bytes spilled, close to XLA at"
        f" {xla} of {len(outcome['sizes'])} sizes {told['warnings'] or ''}"
    )


def machine():
    import jax

    device = jax.devices()[0]
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "device": device.device_kind,
        "compute_capability": getattr(device, "compute_capability", None),
        "driver": driver,
        "jax": jax.__version__,
        "platform_version": " ".join(device.client.platform_version.split()),
        "python": sys.version.split()[0],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    parser.add_argument(
        "--dir", type=Path, default=ROOT / "generated", help="where the modules are"
    )
    parser.add_argument("--module", help="run this module in this process")
    parser.add_argument("--limit", type=int, default=120, help="seconds per module")
    parser.add_argument("names", nargs="*", help="modules; all of them by default")
    options = parser.parse_args()
    if options.module:
        return run_one(options.dir, options.module)

    found = sorted(path.stem for path in options.dir.glob("*.py"))
    result = {"machine": machine(), "modules": {}}
    for name in options.names or found:
        outcome = run_in_process(options.dir, name, options.limit)
        provenance = (options.dir / f"{name}.py").read_text(encoding="utf-8")
        text_digest = re.search(r"text ([0-9a-f]{12})", provenance)
        outcome["text_digest"] = text_digest and text_digest[1]
        outcome["right"] = is_right(outcome)
        result["modules"][name] = outcome
        print(summary(name, outcome), flush=True)
        if options.out:
            options.out.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if all(m["right"] for m in result["modules"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
