"""Tells in the benchmarks' page what `kgen tune` found: see report.py."""

import collections
import functools
import json
import statistics

from result_files import AS_COMMITTED, read, read_from, table, told

from kgen.emit.render import template_digest

EARLIER = "earlier ones"


def searches(name, catalogue):
    """Tells what `kgen tune` found at each size, beside the catalogue's kernel.

    Args:
      name: The file of its results.
      catalogue: The file of what `h200.py` measured of the catalogue.
    """
    known = told(catalogue, measured_kernels)
    with read_from(name):
        lines = read(name).splitlines()
    measured = collections.defaultdict(dict)
    for number, line in enumerate(lines, start=1):
        with read_from(f"{name}:{number}"):
            take(measured, json.loads(line))
    with read_from(name):
        rows = [*found_rows(measured, known)]
    head = (
        *("m x n x k", "measured", "us", "XLA / ours"),
        *("the catalogue's us", "XLA / it", "the fastest", "templates"),
    )
    return f"""## What `kgen tune` found

On one NVIDIA H200; [results/h200_tune.jsonl](results/h200_tune.jsonl) has every candidate
that was tried, with its times. Two of the fastest may differ by less than the noise. The
catalogue's kernels were measured in another run: see above. XLA's kernel may be another
in each. A kernel of earlier templates may be faster or slower by now.

{table(head, rows)}

"""


def measured_kernels(catalogue):
    """Returns time and ratio of the catalogue's kernels, by their sizes."""
    return {
        " x ".join(map(str, record["shape"])): beside(record)
        for record in catalogue["results"]
        if record["timing"] is not None
    }


def take(measured, result):
    """Notes what was measured of a candidate: its best, by size and digest."""
    if result["outcome"] == "measured":
        size = " x ".join(map(str, result["key"]["shape"]))
        us = statistics.median(result["us"])
        ratio = statistics.median(result["peer_us"]) / us
        timed = (us, ratio, result["values"], templates(result["key"]))
        best = measured[size].get(result["digest"], timed)
        measured[size][result["digest"]] = min(best, timed, key=lambda of: of[0])


def found_rows(measured, known):
    """Yields a row for the fastest candidate of every size."""
    for size, candidates in measured.items():
        us, ratio, values, by = min(candidates.values(), key=lambda of: of[0])
        said = ", ".join(f"{k.split('.')[-1]} {v}" for k, v in values.items() if v)
        found = size, len(candidates), f"{us:.1f}", f"{ratio:.3f}"
        yield *found, *known.get(size, ("", "")), said, by


@functools.cache
def digest(operation):
    return template_digest(operation)


def templates(key):
    """Tells whether the templates were those that are committed now."""
    return AS_COMMITTED if key["template"] == digest(key["op"]) else EARLIER


def beside(record):
    """Returns the time and the ratio of a kernel of the catalogue."""
    ratio = {peer["name"]: peer["ratio"] for peer in record["peers"]}.get("xla")
    said = "" if ratio is None else f"{ratio:.3f}"
    return f"{record['timing']['median_us']:.1f}", said
