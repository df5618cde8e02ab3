"""Tells where the time of a kernel goes: when each warpgroup does what, in cycles.

    python benchmarks/timeline.py generated/bf16_128x128_ping_pong.py 16896,512,640 \
        --out benchmarks/results/timeline_16896x512x640.json

A module is run once, as it is, with Mosaic GPU's profiler around two kinds of work: the
accumulation of a tile (`pl.run_scoped` of a compute warpgroup) and the module's
functions that are named by `--function`. Every warpgroup of every CTA notes its clock.
The profiler takes some SMEM; a kernel that needs all of it cannot be profiled.
"""

import argparse
import collections
import functools
import importlib.util
import json
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from kgen.code import code_digest  # noqa: E402
from kgen.errors import KgenError  # noqa: E402
from kgen.measure import machine  # noqa: E402
from kgen.shapes import parse_sizes  # noqa: E402

EVENTS = 48
FLOPS_PER_CYCLE = 4096  # Of an SM, 16-bit operands.


def load(path):
    """Returns a rendered module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scoped(function, name):
    """Returns `function` as a scope of the profile."""
    import jax

    @functools.wraps(function)
    def wrapped(*arguments, **options):
        with jax.named_scope(name):
            return function(*arguments, **options)

    return wrapped


def instrument(module, functions, directory):
    """Makes a module note when a warpgroup accumulates and when it runs `functions`."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import mosaic_gpu as plgpu

    parameters = plgpu.CompilerParams(profile_space=EVENTS, profile_dir=directory)
    kernel, run_scoped = plgpu.kernel, pl.run_scoped

    def run(function, *types, **options):
        is_tile = any(isinstance(each, type(plgpu.ACC((64, 64)))) for each in types)
        chosen = scoped(function, "accumulate") if is_tile else function
        return run_scoped(chosen, *types, **options)

    plgpu.kernel = functools.partial(kernel, compiler_params=parameters)
    pl.run_scoped = run
    for name in functions:
        setattr(module, name, scoped(getattr(module, name), name))


def timeline(events, warpgroups):
    """Returns what every warpgroup of a CTA did, in the order in which it began.

    Each row: the warpgroup, the scope, its turn, and in thousands of cycles after the
    first event of all: when it began, and how long it took; medians over the CTAs, with
    the latest end of all.
    """
    origin = min(event["ts"] for event in events)
    begun, turns = {}, collections.Counter()
    spans = collections.defaultdict(list)
    for event in events:
        thread, name = event["tid"], event["name"]
        moment = event["ts"] - origin
        if event["ph"] == "B":
            begun[thread, name] = moment
            continue
        row = (thread - 1) % warpgroups, name, turns[thread, name]
        spans[row].append((begun.pop((thread, name)), moment))
        turns[thread, name] += 1
    rows = [
        {
            "warpgroup": warpgroup,
            "scope": name,
            "turn": turn,
            "begins": round(statistics.median(start for start, _ in each), 2),
            "takes": round(statistics.median(end - start for start, end in each), 2),
            "latest_end": round(max(end for _, end in each), 2),
        }
        for (warpgroup, name, turn), each in spans.items()
    ]
    return sorted(rows, key=lambda row: row["begins"])


def profile(path, shape, functions):
    """Runs a module on normal values and returns its timeline."""
    import jax
    import jax.numpy as jnp

    module = load(path)
    m, n, k = shape
    keys = jax.random.split(jax.random.key(0))
    a = jax.random.normal(keys[0], (m, k), module.DTYPE)
    b = jax.random.normal(keys[1], (k, n), module.DTYPE)
    with tempfile.TemporaryDirectory() as directory:
        instrument(module, functions, directory)
        jax.block_until_ready(module.matmul(a, b))
        jax.effects_barrier()
        (trace,) = Path(directory).glob("*.json")
        events = json.loads(trace.read_text())["traceEvents"]
    return {
        "kernel": path.stem,
        "source_digest": code_digest(path.read_text(encoding="utf-8")),
        "shape": list(shape),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "unit": "thousands of cycles",
        "tile_cycles": round(
            2 * module.TILE_M * module.TILE_N * k / FLOPS_PER_CYCLE / 1e3, 2
        ),
        "rows": timeline(events, module.COMPUTE_WGS + 1),
        "dtype": jnp.dtype(module.DTYPE).name,
    }


def sizes(text):
    """Returns the sizes of an argument such as 16896,512,640."""
    found = parse_sizes(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not m,n,k such as 16896,512,640")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path, help="a rendered, warp-specialised matmul")
    parser.add_argument("shape", type=sizes, help="m,n,k")
    parser.add_argument("--function", action="append", default=["_store"])
    parser.add_argument("--out", type=Path, required=True, help="where the JSON goes")
    options = parser.parse_args()
    if not options.module.is_file():
        parser.error(f"there is no module {options.module}")
    try:
        machine.find_gpu("sm_90a")
    except KgenError as error:
        sys.exit(f"error: {error}")
    found = profile(options.module, options.shape, options.function)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    for row in found["rows"]:
        print(
            f"warpgroup {row['warpgroup']}  {row['scope']:<12} #{row['turn']}"
            f"  begins {row['begins']:6.2f}  takes {row['takes']:6.2f}"
            f"  latest end {row['latest_end']:6.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())
