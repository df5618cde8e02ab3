"""Tells in the benchmarks' page what `kgen tune` found: see report.py."""

import collections
import functools
import json
import statistics

from result_files import AS_COMMITTED, table

from kgen.emit.render import template_digest

EARLIER = "earlier ones"


def searches(text, catalogue):
    """Tells what `kgen tune` found at each size, beside the catalogue's kernel.

    Args:
      text: The lines of its results.
      catalogue: What `h200.py` measured of the catalogue.
    """
    known = {
        " x ".join(map(str, record["shape"])): beside(record)
        for record in catalogue["results"]
    }
    measured = collections.defaultdict(dict)
    for line in text.splitlines():
        result = json.loads(line)
        if result["outcome"] == "measured":
            size = " x ".join(map(str, result["key"]["shape"]))
            us = statistics.median(result["us"])
            ratio = statistics.median(result["peer_us"]) / us
            told = (us, ratio, result["values"], templates(result["key"]))
            best = measured[size].get(result["digest"], told)
            measured[size][result["digest"]] = min(best, told, key=lambda of: of[0])
    rows = []
    for size, candidates in measured.items():
        us, ratio, values, by = min(candidates.values(), key=lambda of: of[0])
        said = ", ".join(f"{k.split('.')[-1]} {v}" for k, v in values.items() if v)
        found = size, len(candidates), f"{us:.1f}", f"{ratio:.3f}"
        rows.append((*found, *known.get(size, ("", "")), said, by))
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


@functools.cache
def digest(operation):
    return template_digest(operation)


def templates(key):
    """Tells whether the templates were those that are committed now."""
    return AS_COMMITTED if key["template"] == digest(key["op"]) else EARLIER


def beside(record):
    """Returns the time and the ratio of a kernel of the catalogue."""
    ratio = next(p["ratio"] for p in record["peers"] if p["name"] == "xla")
    return f"{record['timing']['median_us']:.1f}", f"{ratio:.3f}"
