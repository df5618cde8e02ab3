"""Tells why a kernel takes as long as it does: clock, power and hardware counters.

    python benchmarks/counters.py benchmarks/h200_misses.json \
        --out benchmarks/results/h200_counters.json

The list holds pairs of a module's path and the sizes, as that of `h200.py` does. Every
kernel, and each of XLA's forms of the same work, runs in two ways:

* Over and over for a second, while `nvidia-smi` tells the SMs' clock and the board's
  power. A GPU at its power limit lowers its clock: what takes fewer cycles may then take
  no less time.
* Once under Nsight Compute (`ncu`), which counts cycles, how busy the tensor cores are,
  and what goes through SMEM, L2 and memory. XLA's form may be several kernels.

Neither is a benchmark: nothing takes turns, and ncu empties the caches before a kernel.
"""

import argparse
import contextlib
import csv
import ctypes
import fcntl
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT))
import h200  # noqa: E402

from kgen.code import code_digest  # noqa: E402
from kgen.errors import KgenError  # noqa: E402
from kgen.measure import bench, machine, operands, timing  # noqa: E402
from kgen.measure.computed import Computed  # noqa: E402

STEADY_S, SETTLE_S, SAMPLE_MS = 1.0, 0.3, 20
READY_S, LIMIT_S = 90, 120
BETWEEN_WAITS = 12
MARK_THREADS = 1024
COUNTERS = (
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed.sum",
    "l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed",
    "l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed",
    "lts__t_bytes.sum",
    "dram__bytes.sum",
    "launch__grid_size",
    "launch__block_size",
    "launch__cluster_size",
    "launch__registers_per_thread",
)
QUERY = "clocks.sm,power.draw.instant,temperature.gpu"


def executables(job, most_sets=operands.MOST_SETS):
    """Returns operands, and what runs on them by name: the kernel and XLA's forms."""
    path = Path(job.path)
    sys.path.insert(0, str(path.parent))
    module = importlib.import_module(path.stem)
    computed = Computed.of(job.request)
    sets = computed.draw(machine.l2_bytes(job.request.arch))[:most_sets]
    forms = computed.xla(sets, module.reference)
    kernel = timing.compile_each(getattr(module, job.request.function), sets)
    named = {f"xla: {form}" if form else "xla": forms[form] for form in forms}
    return sets, {"kernel": kernel, **named}


def wait(result):
    import jax

    jax.block_until_ready(result)


def sample(stop, found):
    """Notes moments, clocks in MHz and watts until it is told to stop."""
    command = [
        "nvidia-smi",
        f"--query-gpu={QUERY}",
        "--format=csv,noheader,nounits",
        f"-lms={SAMPLE_MS}",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                found.append((time.monotonic(), *map(float, line.split(","))))
            if stop.is_set():
                process.kill()


@contextlib.contextmanager
def alone(directory):
    """Waits until all are ready, then lets no other process of this script in."""
    (directory / f"ready_{os.getpid()}").touch()
    while not (directory / "go").exists():
        time.sleep(0.05)
    with (directory / "lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def steady(job, directory):
    """Returns clock, power and time of everything, running over and over."""
    sets, chosen = executables(job)
    for compiled in chosen.values():
        wait(compiled.run(sets))
    with alone(directory):
        return {name: watched(compiled, sets) for name, compiled in chosen.items()}


def watched(compiled, sets):
    """Returns clock, power and time of an executable, running over and over."""
    found, stop = [], threading.Event()
    watcher = threading.Thread(target=sample, args=(stop, found))
    watcher.start()
    begin = time.monotonic() + SETTLE_S
    while time.monotonic() < begin:
        wait(compiled.run(sets))
    begin, runs = time.monotonic(), 0
    while time.monotonic() - begin < STEADY_S:
        wait([compiled.run(sets) for _ in range(BETWEEN_WAITS)])
        runs += BETWEEN_WAITS
    end = time.monotonic()
    stop.set()
    watcher.join()
    inside = [each[1:] for each in found if begin <= each[0] <= end]
    mhz, watts, celsius = map(statistics.mean, zip(*inside, strict=True))
    return {
        "us_with_gaps": round(1e6 * (end - begin) / runs / compiled.calls, 2),
        "samples": len(inside),
        "mhz": round(mhz),
        "watts": round(watts),
        "celsius": round(celsius),
    }


def once(job, directory):
    """Runs everything once, such that a profiler sees it and what tells it apart."""
    import jax
    import jax.numpy as jnp

    sets, chosen = executables(job, most_sets=1)
    mark = jax.jit(lambda x: x + 1).lower(jnp.zeros(1)).compile()
    for compiled in chosen.values():
        wait(compiled.run(sets))
    wait(mark(jnp.zeros(1)))
    zero = jnp.zeros(1)
    driver = ctypes.CDLL("libcuda.so.1")
    with alone(directory):
        driver.cuProfilerStart()
        for compiled in chosen.values():
            wait(compiled.run(sets))
            wait(mark(zero))
        driver.cuProfilerStop()
    return [*chosen]


def is_mark(kernel):
    return kernel["launch__grid_size"] * kernel["launch__block_size"] <= MARK_THREADS


def parts(kernels, names):
    """Returns the kernels of every executable: a mark ends each."""
    found = {name: [] for name in names}
    left = [*names]
    for kernel in kernels:
        if is_mark(kernel):
            left.pop(0)
        else:
            found[left[0]].append(kernel)
    return found


def child(options, mode, pair, directory, *before):
    """Starts this script for one pair, perhaps under a profiler; returns the process."""
    command = [*before, sys.executable, __file__, str(options.list)]
    command += [f"--{mode}", str(pair), "--directory", str(directory)]
    environment = {
        **os.environ,
        # A graph of kernels would be counted as one.
        "XLA_FLAGS": "--xla_gpu_enable_command_buffer=",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # So that what a profiler starts can be ended with it.
    )


def last_line(process):
    """Returns what a child prints last, as JSON; what it complained about instead."""
    try:
        out, complaints = process.communicate(timeout=LIMIT_S)
        return json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": (out + complaints)[-600:]}
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return {"error": f"not done within {LIMIT_S} s"}


def counters_of(process, log):
    """Returns what ncu counted of every executable, a dictionary for each kernel."""
    names = last_line(process)
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    if not isinstance(names, list):
        return {**names, "ncu": text[-600:]}
    table = csv.DictReader(line for line in text.splitlines() if line[:1] == '"')
    # The first row has the units.
    return parts([numbers(row) for row in table if row["ID"]], names)


def numbers(row):
    """Returns what is kept of what ncu says of a kernel."""
    found = {}
    for name in COUNTERS:
        with contextlib.suppress(ValueError):
            found[name] = float(row.get(name, "").replace(",", ""))
    return {"kernel": row["Kernel Name"], **found}


def wait_for_all(processes, directory):
    """Lets the children go on once all are ready, or have ended, or time is over."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        ready = len([*directory.glob("ready_*")])
        ended = sum(process.poll() is not None for process in processes)
        if ready + ended >= len(processes):
            break
        time.sleep(0.1)
    (directory / "go").touch()


def jobs_of(path):
    """Returns the jobs of a list."""
    return list(h200.jobs_of(h200.read_list(path)))


def run(options, directory):
    jobs = jobs_of(options.list)
    probed = vars(bench.probe(jobs[0].request.arch))
    steadies, counting = [], []
    for pair in range(len(jobs)):
        steadies.append(child(options, "steady", pair, directory))
        ncu = [
            *("ncu", "--csv", "--page=raw", "--print-units=base"),
            *("--clock-control=none", "--profile-from-start=off"),
            f"--metrics={','.join(COUNTERS)}",
            f"--log-file={directory / str(pair)}.csv",
        ]
        counting.append(child(options, "once", pair, directory, *ncu))
    wait_for_all([*steadies, *counting], directory)
    pairs = []
    for pair, job in enumerate(jobs):
        pairs.append(
            {
                "name": job.request.name,
                "shape": [*job.batch, *job.shape],
                "source_digest": code_digest(job.request.source),
                "steady": last_line(steadies[pair]),
                "counters": counters_of(counting[pair], directory / f"{pair}.csv"),
            }
        )
        print(json.dumps(pairs[-1])[:700], flush=True)
        document = {"machine": probed, "pairs": pairs}
        options.out.write_text(json.dumps(document, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list", type=Path, help="JSON of [module, [m, n, k]] pairs")
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    for mode in ("once", "steady", "directory"):
        parser.add_argument(f"--{mode}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        if options.directory is None:
            with tempfile.TemporaryDirectory() as directory:
                run(options, Path(directory))
            return
        function = steady if options.steady is not None else once
        job = jobs_of(options.list)[int(options.steady or options.once or 0)]
        print(json.dumps(function(job, Path(options.directory))), flush=True)
        os._exit(0)  # Nothing of JAX's may be counted or run after it.
    except KgenError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    sys.exit(main())
