"""Finds the accumulators that fit in registers: where the border of rule KG402 lies.

    python benchmarks/register_limits.py --render DIR
    python benchmarks/register_limits.py --run DIR --out results/register_limits.json

The first renders kernels on both sides of the border, with the rule left out; it needs
kgen. The second compiles and runs them on a GPU, each in a process of its own; it needs
jax and numpy. A kernel is fine if it compiles, spills nothing and is right.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from kgen.verify import ptxas  # noqa: E402

# Compute warpgroups (0: not warp-specialised), rows and columns of the CTA's tile.
TILES = [
    (0, 128, 216),
    (0, 128, 224),
    (0, 128, 232),
    (1, 128, 216),
    (1, 128, 224),
    (1, 128, 232),
    (2, 256, 192),
    (2, 256, 200),
    (2, 256, 208),
    (3, 192, 184),
    (3, 192, 192),
    (3, 192, 200),
    (3, 192, 208),
    (3, 384, 88),
    (3, 384, 96),
    (3, 384, 104),
    (3, 384, 120),
]


def render_all(directory):
    import tempfile

    from kgen.emit.render import render
    from kgen.plan import matmul
    from kgen.plan.legality.base import CHECKS
    from kgen.spec.load import load_file

    directory.mkdir(parents=True, exist_ok=True)
    for wgs, m, n in TILES:
        name = name_of(wgs, m, n)
        text = (
            f'[kernel]\nname = "{name}"\nop = "matmul"\nlayout = "nt"\n'
            f"[tile]\nm = {m}\nn = {n}\n[pipeline]\nmax_concurrent_steps = 2\n"
        )
        if wgs:
            text += f"[schedule]\nwarp_specialized = true\nnum_compute_wgs = {wgs}\n"
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / f"{name}.toml"
            path.write_text(text)
            (spec,) = load_file(path)
        candidate = matmul.resolve(spec)
        broken = {code for code, check in CHECKS.items() if list(check(candidate))}
        assert broken <= {"KG402"}, (name, broken)
        source = render(matmul.finish(candidate), verified=False).source
        (directory / f"{name}.py").write_text(source)


def run_one(directory, name):
    """Prints whether the product of small integers is right, as the last line."""
    import jax.numpy as jnp
    import numpy as np

    sys.path.insert(0, str(directory))
    module = importlib.import_module(name)
    m, n, k = 3 * module.TILE_M, 2 * module.TILE_N, 5 * module.TILE_K
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (n, k))
    result = module.matmul(jnp.asarray(a, module.DTYPE), jnp.asarray(b, module.DTYPE))
    expected = jnp.asarray(a @ b.T, jnp.float32).astype(result.dtype)
    print(json.dumps(bool((result == expected).all())))


def told_by_ptxas(text):
    """Returns registers and spilled bytes that ptxas told."""
    report = ptxas.parse(text)
    spilled = [kernel.spill_store_bytes for kernel in report.kernels]
    return {
        "registers": report.registers,
        "spilled_bytes": max(spilled, default=None),
    }


def outcome_of(directory, name):
    done = subprocess.run(
        [sys.executable, __file__, "--run", str(directory), "--module", name],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MOSAIC_GPU_DUMP_PTXAS": "1"},
        check=False,
    )
    told = done.stdout + done.stderr
    if done.returncode:
        refusal = ptxas.parse(told).refusal
        lines = done.stderr.strip().splitlines()
        return {"compiled": False, "error": str(refusal) if refusal else lines[-1]}
    found = told_by_ptxas(told)
    right = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        "compiled": True,
        "right": right,
        "registers": found["registers"],
        "spilled_bytes": found["spilled_bytes"],
    }


def machine():
    import jax

    device = jax.devices()[0]
    if device.platform != "gpu":
        sys.exit("error: JAX sees no NVIDIA GPU")
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


def run_all(directory, out):
    result = {"machine": machine(), "kernels": []}
    for wgs, m, n in TILES:
        outcome = outcome_of(directory, name_of(wgs, m, n))
        accumulator = m * n // max(wgs, 1) // 128
        row = {"compute_wgs": wgs, "m": m, "n": n, "accumulator": accumulator}
        result["kernels"].append({**row, **outcome})
        print(result["kernels"][-1], flush=True)
        out.write_text(json.dumps(result, indent=2) + "\n")


def name_of(wgs, m, n):
    return f"wgs{wgs}_{m}x{n}"


def missing_module(options):
    """Returns the first file that would be run and is not there, or None."""
    if not options.run:
        return None
    names = [options.module] if options.module else [name_of(*tile) for tile in TILES]
    files = (f"{name}.py" for name in names)
    return next((file for file in files if not (options.run / file).is_file()), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--render", type=Path, metavar="DIR")
    parser.add_argument("--run", type=Path, metavar="DIR")
    parser.add_argument("--module", help="run this module in this process")
    parser.add_argument("--out", type=Path, default=Path("register_limits.json"))
    options = parser.parse_args()
    if not (options.render or options.run):
        parser.error("--render DIR or --run DIR is needed")
    if options.module and not options.run:
        parser.error("--module needs --run DIR")
    if options.render and options.render.exists() and not options.render.is_dir():
        parser.error(f"--render {options.render} is no directory")
    for needed in (options.run, options.out.parent):
        if needed and needed != options.render and not needed.is_dir():
            parser.error(f"there is no directory {needed}")
    if options.render:
        render_all(options.render)
    if missing := missing_module(options):
        parser.error(f"there is no module {missing} in {options.run}")
    if options.module:
        run_one(options.run, options.module)
    elif options.run:
        run_all(options.run, options.out)


if __name__ == "__main__":
    main()
