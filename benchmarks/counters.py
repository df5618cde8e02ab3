"""Reads the hardware counters of kernels and of XLA's products, with Nsight Compute.

    python benchmarks/counters.py --out benchmarks/results/counters.json \
        generated/e4m3_128x256_persistent.py:4096,8192,4096

needs a GPU whose counters `ncu` may read. For every module and size a process compiles
the kernel and XLA's product, runs both a few times, and then once each under the
profiler, which repeats that run until it has read every counter. The clock is left as it
is. Times under the profiler are not those of a kernel among others: `h200.py` has these.
"""

import argparse
import csv
import ctypes
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from kgen.errors import KgenError  # noqa: E402
from kgen.measure import bench, machine, operands, peers, timing  # noqa: E402
from kgen.measure.problem import Problem  # noqa: E402
from kgen.targets import Asked, find_targets  # noqa: E402

SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis")
WARM_UPS = 3


def target_of(pair):
    path, _, shape = pair.rpartition(":")
    (target,) = find_targets([path], Asked(shapes=(shape,)), lambda futures, _: futures)
    return target


def problem_of(request):
    (case,) = request.cases
    return Problem(
        shape=(case.m, case.n, case.k),
        layout=request.layout,
        operand_dtype=request.operand_dtype,
        b_dtype=request.b_dtype,
        out_dtype=request.out_dtype,
    )


def run_one(pair):
    """Runs XLA's product and then the kernel, once each where the profiler looks."""
    target = target_of(pair)
    problem = problem_of(target.request)
    spec = importlib.util.spec_from_file_location(target.request.name, target.path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sets = operands.draw(problem, l2_bytes=machine.l2_bytes(target.request.arch))[:1]
    runs = [
        timing.compile_each(function, sets).run
        for function in (peers.xla(problem), module.matmul)
    ]
    import jax

    for run in runs * WARM_UPS:
        jax.block_until_ready(run(sets))
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuProfilerStart()
    for run in runs:
        jax.block_until_ready(run(sets))
    driver.cuProfilerStop()


def counters(pair, limit):
    """Returns the counters of every kernel of a pair, in the order in which they ran."""
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv"]
    command += ["--profile-from-start", "off", "--print-details", "all"]
    command += [word for section in SECTIONS for word in ("--section", section)]
    command += [sys.executable, __file__, "--run", pair]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=limit, check=False
    )
    if done.returncode:
        raise KgenError(
            f"ncu failed on {pair}: {done.stdout[-400:]}{done.stderr[-400:]}"
        )
    lines = done.stdout.splitlines()
    start = next(i for i, text in enumerate(lines) if text.startswith('"ID"'))
    kernels = {}
    for row in csv.DictReader(lines[start:]):
        kernel = kernels.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        kernel[row["Metric Name"]] = (
            f"{row['Metric Value']} {row['Metric Unit']}".strip()
        )
    return list(kernels.values())


def run(options):
    found = {"machine": None, "results": []}
    for pair in options.pairs:
        target = target_of(pair)
        if found["machine"] is None:
            found["machine"] = vars(bench.probe(target.request.arch))
        kernels = counters(pair, options.limit)
        found["results"].append({"pair": pair, "kernels": kernels})
        print(pair, *(kernel["kernel"] for kernel in kernels), flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="*", help="MODULE.py:M,N,K of a plain product")
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    parser.add_argument("--limit", type=float, default=120, help="seconds of one pair")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        return run_one(options.run) if options.run else run(options)
    except KgenError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    sys.exit(main())
