"""Measures kgen itself: start-up, rendering, verification, --check, memory.

    python benchmarks/speed.py --out benchmarks/results/speed.json

Every command runs several times in a fresh process, with bytecode cached as after an
installation. Run it on an otherwise idle machine: where the best is far below the median,
something else was running.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPEC = str(ROOT / "specs" / "fp16_128x128.toml")
LIMITS = {
    "help_s": 0.25,
    "render_unverified_s": 0.8,
    "render_unverified_peak_mb": 150,
    "render_verified_s": 10,
    "render_remembered_s": 1,
    "check_100_specs_s": 15,
}


def run(*arguments, cwd, cache):
    """Returns seconds and peak MB of one command and its children."""
    environment = {**os.environ, "KGEN_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "kgen", *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    told = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"kgen {' '.join(arguments)} failed: {told}")
    return seconds, usage.ru_maxrss / 1024


def median(runs, *arguments, cwd, cache):
    """Returns median and least of the seconds, and the largest peak of memory."""
    results = [run(*arguments, cwd=cwd, cache=cache) for _ in range(runs)]
    seconds = [s for s, _ in results]
    peak = max(mb for _, mb in results)
    return (statistics.median(seconds), min(seconds)), (peak, peak)


def write_hundred_specs(directory):
    directory.mkdir()
    for index in range(100):
        n = 8 * (index % 24 + 1)
        text = (
            f'[kernel]\nname = "k{index:03}"\nop = "matmul"\nlayout = "nt"\n'
            f"[tile]\nm = 64\nn = {n}\n"
        )
        (directory / f"k{index:03}.toml").write_text(text)


def measure(directory):
    """Returns every figure by its name."""
    place = {"cwd": directory, "cache": directory / "cache"}
    figures = {}
    run("--help", **place)
    figures["help_s"], _ = median(9, "--help", **place)
    command = ("render", SPEC, "--no-verify", "--out", "unverified")
    figures["render_unverified_s"], peak = median(7, *command, "--force", **place)
    figures["render_unverified_peak_mb"] = peak
    command = ("render", SPEC, "--out", "verified")
    figures["render_verified_s"], _ = median(3, *command, "--no-cache", **place)
    run(*command, **place)
    figures["render_remembered_s"], _ = median(5, *command, **place)
    write_hundred_specs(directory / "specs")
    run("render", "--no-verify", "-q", "-j", "2", **place)
    command = ("render", "--check", "--no-verify", "-j", "2")
    figures["check_100_specs_s"], _ = median(3, *command, **place)
    return {
        name: {"median": round(middle, 3), "best": round(best, 3)}
        for name, (middle, best) in figures.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = measure(Path(directory))
    from importlib.metadata import version

    result = {
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "processor": platform.machine(),
            "python": platform.python_version(),
            "jax": version("jax"),
            "black": version("black"),
        },
        "load_before": os.getloadavg()[0],
        "figures": figures,
        "limits": LIMITS,
    }
    for name, value in figures.items():
        print(f"{name:28} {value}   limit {LIMITS[name]}")
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if all(figures[name]["median"] <= LIMITS[name] for name in LIMITS) else 1


if __name__ == "__main__":
    sys.exit(main())
