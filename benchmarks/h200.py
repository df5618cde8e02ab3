"""Proves and measures the kernels of a list on a GPU, the most important first.

    python benchmarks/h200.py benchmarks/h200.json --out benchmarks/results/h200.json

The list holds pairs of a module's path and the sizes m, n, k:

    [["generated/bf16_128x256_ws.py", [4096, 8192, 4096]]]

Each pair gets the level `gpu` of `kgen verify`, and then `kgen bench` in turns with XLA
and with JAX's shipped Hopper matmul at the best of its sweep, whose configurations are
compiled on all cores and all written down. Only jax, numpy, click, rich, jinja2 and this
directory's parent are needed.

The results are written after every pair. `--resume` keeps what an earlier run measured of
the same texts with the same software on the same kind of GPU.
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from kgen.code import code_digest  # noqa: E402
from kgen.errors import KgenError  # noqa: E402
from kgen.measure import bench, files, results, tables  # noqa: E402
from kgen.tables import plain_text  # noqa: E402
from kgen.targets import find_targets  # noqa: E402
from kgen.targets.asked import Asked  # noqa: E402

PEERS = ("xla", "jax-example")


def read_list(path):
    """Returns the pairs of a list; a message instead if it is none."""
    try:
        pairs = json.loads(path.read_text(encoding="utf-8"))
        found = [(str(module), tuple(map(int, shape))) for module, shape in pairs]
        if not found:
            raise ValueError("it is empty")
        return found
    except (OSError, OverflowError, RecursionError, TypeError, ValueError) as error:
        sys.exit(
            f"{path} is no list of [module, [m, n, k]], or [batch, m, n, k]: {error}"
        )


def jobs_of(pairs):
    for module, shape in pairs:
        batch, sizes = shape[:-3], shape[-3:]
        leading = "".join(f"{size}x" for size in batch)
        asked = Asked(shapes=(leading + ",".join(map(str, sizes)),))
        for target in find_targets([module], asked, lambda futures, _: futures):
            yield from bench.jobs_of(target.label, target.path, target.request)


def is_about(record, job):
    """Whether a record is about what a job would measure."""
    same_code = record.source_digest == code_digest(job.request.source)
    sizes = (record.batch, record.shape) == (job.batch, job.shape)
    return same_code and record.name == job.request.name and sizes


def kept(path, jobs):
    """Returns what an earlier run measured, and its machine."""
    if not path.exists():
        return [], None
    document = files.load(path)
    records = [
        record
        for record in document.results
        if record.status == results.MEASURED
        and any(is_about(record, job) for job in jobs)
    ]
    return records, document.machine


def check_machine(machine, arch):
    """Ends the run if earlier results are of another machine."""
    here = bench.probe(arch)
    if here != machine:
        sys.exit(
            f"the earlier results are of {machine}, this is {here}:"
            " they cannot be in one file; choose another --out"
        )


def line(record):
    """Returns what became of a pair, on a line."""
    if record.timing is None:
        return f"{record.name} at {record.size}: {record.status}: {record.detail}"
    ratios = [f"{p.name} {p.ratio or p.detail}" for p in record.peers]
    return (
        f"{record.name} at {record.size}: {record.timing.median_us:.1f} us,"
        f" {', '.join(ratios)}"
    )


def run(options):
    start = time.monotonic()
    jobs = list(jobs_of(read_list(options.list)))
    before, machine = kept(options.out, jobs) if options.resume else ([], None)
    left = [job for job in jobs if not any(is_about(r, job) for r in before)]
    if before:
        check_machine(machine, jobs[0].request.arch)
    measured = bench.measure(
        left,
        bench.Options(
            peers=tuple(options.peer or PEERS),
            rounds=options.rounds,
            sweep_budget=options.sweep_budget,
            verify=True,
        ),
        deadline=start + options.budget,
    )
    done = 0
    document = None
    for found in measured:
        document = dataclasses.replace(found, results=(*before, *found.results))
        files.save(document, options.out)
        done += 1
        print(
            f"{time.monotonic() - start:4.0f} s  {line(document.results[-1])}",
            flush=True,
        )
    if document is not None:
        print(plain_text(tables.results_table(document), 200), end="")
    print(
        f"{len(before)} kept, {done} measured, {len(left) - done} not for want of time"
    )
    bad = document and any(r.status != results.MEASURED for r in document.results)
    return int(bool(bad) or done < len(left))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="exit 1 if a pair was not measured",
    )
    parser.add_argument("list", type=Path, help="JSON of [module, [m, n, k]] pairs")
    parser.add_argument("--out", type=Path, required=True, help="where results go")
    parser.add_argument("--resume", action="store_true", help="keep what is in OUT")
    parser.add_argument(
        "--budget", type=float, default=540, help="seconds for all of it"
    )
    parser.add_argument(
        "--sweep-budget", type=float, default=45, help="seconds for a shape's sweep"
    )
    parser.add_argument("--rounds", type=int, default=10, help="rounds of every kernel")
    parser.add_argument(
        "--peer", action="append", help="instead of xla and jax-example"
    )
    try:
        return run(parser.parse_args())
    except KgenError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    sys.exit(main())
