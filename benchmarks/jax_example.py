"""Measures tuned kernels beside JAX's shipped Hopper matmul at the best of its sweep.

    python benchmarks/jax_example.py benchmarks/h200.json \
        --out benchmarks/results/h200_jax_example.json

For every pair of the list, as `h200.py` takes it, the most promising configurations of the
shipped file are compiled by threads of one process, which is much faster than a process
each, and timed once. The best two, the kernel and XLA are then timed in turns. Every
configuration that was tried is written down. Nothing is verified here: that is h200.py's
part. Every size has a process of its own. Several compile at once, while one at a time
uses the GPU.
"""

import argparse
import contextlib
import fcntl
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import h200

from kgen.code import code_digest
from kgen.errors import KgenError
from kgen.measure import correct, example, machine, operands, peers, timing
from kgen.measure.problem import Problem

ARCH, DTYPE = "sm_90a", "bfloat16"
FINALISTS = 2
AT_ONCE = 6
COMPILING = 8


def function_of(path):
    """Returns a module's matmul and its source."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.matmul, Path(path).read_text(encoding="utf-8")


@contextlib.contextmanager
def alone(lock):
    """Waits until no other process of this run uses the GPU."""
    with Path(lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compiled(function, structs):
    """Returns an executable, or why there is none."""
    try:
        return timing.compile_each(function, structs)
    except Exception as error:  # Whatever JAX raises is the configuration's result.
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def compile_sweep(problem, structs, threads, most):
    """Returns why there is no sweep, the executables by name, and what did not compile."""
    try:
        configurations = example.examples(problem)[:most]
    except peers.NoPeerError as error:
        return str(error), {}, []
    functions = [example.function(each) for each in configurations]
    executables = threads.map(functools.partial(compiled, structs=structs), functions)
    ready, failed = {}, []
    for name, executable in zip(map(str, configurations), executables, strict=True):
        if isinstance(executable, str):
            failed.append({"configuration": name, "us": None, "detail": executable})
        else:
            ready[name] = executable
    return "", ready, failed


def time_sweep(ready, sets):
    """Returns the times of what compiled, and the executables of the fastest by name."""
    found = timing.interleave(ready, sets, rounds=2)
    best = sorted(found, key=lambda name: found[name].median)
    times = [
        {"configuration": name, "us": round(found[name].median, 3), "detail": ""}
        for name in best
    ]
    return times, {name: ready[name] for name in best[:FINALISTS]}


def measure(path, shape, options, threads):
    """Returns the record of one pair."""
    problem = Problem(
        shape=tuple(shape), layout="nn", operand_dtype=DTYPE, out_dtype=DTYPE
    )
    l2_bytes = machine.l2_bytes(ARCH)
    count = operands.count_sets(problem.operand_bytes, l2_bytes)
    matmul, source = function_of(path)
    structs = [correct.structs(problem)] * count
    detail, ready, failed = compile_sweep(problem, structs, threads, options.most)
    ours = timing.compile_each(matmul, structs)
    with alone(options.lock):
        sets = operands.draw(problem, l2_bytes=l2_bytes)
        times, best = time_sweep(ready, sets)
        runs = {"ours": ours, "xla": peers.compile_xla(problem, sets), **best}
        found = timing.interleave(runs, sets, rounds=options.rounds)
    ours_us = found["ours"].median
    example_us = min((found[name].median for name in best), default=None)
    return {
        "name": Path(path).stem,
        "shape": list(shape),
        "source_digest": code_digest(source),
        "us": {name: [round(us, 4) for us in each.us] for name, each in found.items()},
        "xla_ratio": round(found["xla"].median / ours_us, 4),
        "example_ratio": example_us and round(example_us / ours_us, 4),
        "detail": detail,
        "tried": failed + times,
    }


def one(options):
    """Measures one pair and prints its record: what a process of its own does."""
    device = machine.describe(machine.find_gpu(ARCH))
    path, shape = json.loads(options.one)
    with ThreadPoolExecutor(COMPILING) as threads:
        record = measure(path, shape, options, threads)
    print(json.dumps({"machine": device, **record}))


def in_a_process(pair, options):
    """Returns the record of a pair, or why there is none.

    What aborts or hangs ends one size, not the run.
    """
    command = [sys.executable, __file__, str(options.list), "--out", str(options.out)]
    command += ["--one", json.dumps(pair), "--most", str(options.most)]
    command += ["--rounds", str(options.rounds), "--lock", options.lock]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=options.limit,
            check=False,
            env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        )
    except subprocess.TimeoutExpired:
        return f"no result within {options.limit:g} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["nothing was said"]
        told = next((line for line in lines if line.startswith("error: ")), lines[-1])
        return f"it ended with {done.returncode}: {told}"
    return json.loads(done.stdout.splitlines()[-1])


def run(options):
    start, document = time.monotonic(), None
    pairs = h200.read_list(options.list)
    with tempfile.NamedTemporaryFile() as lock, ThreadPoolExecutor(AT_ONCE) as threads:
        options.lock = options.lock or lock.name
        records = threads.map(functools.partial(in_a_process, options=options), pairs)
        for pair, record in zip(pairs, records, strict=True):
            told = record
            if not isinstance(record, str):
                document = document or {
                    "machine": record["machine"],
                    "rounds": options.rounds,
                    "most": options.most,
                    "results": [],
                }
                del record["machine"]
                document["results"].append(record)
                options.out.write_text(json.dumps(document, indent=1) + "\n")
                told = (
                    f"XLA {record['xla_ratio']}, JAX's example"
                    f" {record['example_ratio']} {record['detail']}"
                )
            print(f"{time.monotonic() - start:4.0f} s  {pair[0]} at {pair[1]}: {told}")
    return int(document is None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list", type=Path, help="JSON of [module, [m, n, k]] pairs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--most", type=int, default=30, help="configurations of a size")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=300, help="seconds of one size")
    parser.add_argument("--lock", help="a file that is locked by whoever measures")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        return one(options) if options.one else run(options)
    except KgenError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    sys.exit(main())
