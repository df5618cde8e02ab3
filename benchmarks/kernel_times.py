"""Tells in the benchmarks' page how long kernels take beside others: see report.py."""

import statistics
from pathlib import Path

from result_files import (
    AS_COMMITTED,
    EARLIER,
    exists,
    is_committed,
    load,
    marked,
    read_from,
    table,
)

NOT_MEASURED = "not measured"
NOT_POSSIBLE = "not possible"
EXAMPLE = "h200_jax_example.json"


def tuned(result, root, name):
    """Returns the table of the tuned kernels; `root` leads to the repository's root."""
    machine, records = result["machine"], result["results"]
    head = (
        "m x n x k",
        "kernel",
        "us",
        "TFLOP/s",
        "TB/s",
        "of the roofline",
        "XLA / ours",
        "JAX's example / ours",
    )
    verified = sum(
        bool(record["verification"])
        and all(level["status"] == "passed" for level in record["verification"])
        for record in records
    )
    same = sum(is_committed(r["name"], r) == AS_COMMITTED for r in records)
    results = f"{root}benchmarks/results/{name}"
    rest = "; the others were measured in an earlier one" * (same < len(records))
    beside = ""
    if any(beside_example(record) for record in records):
        link = f"{root}benchmarks/results/{EXAMPLE}"
        beside = f" JAX's example was timed in [a run of its own]({link})."
    return f"""One {machine["device"]}, JAX {machine["jax"]}, CUDA {machine["cuda"]}, driver
{machine["driver"]}: medians of {rounds_of(records)} rounds in turns with the others, on
independent normal values, each time on other operands than L2 holds. Above 1 is faster
than the other. {verified} of {len(records)} passed `kgen verify --level gpu` in the run
that measured them; [every round's time]({results}). The code of {same} of {len(records)} is the one that
is committed{rest}.{beside}

{table(head, tuned_rows(records)).replace("{root}", root)}

{means(records)}
"""


def rounds_of(records):
    """Tells how many rounds kernels took: not all are of one run."""
    rounds = {len(record["timing"]["us"]) for record in records if record["timing"]}
    return " or ".join(map(str, sorted(rounds)))


def tuned_rows(records):
    for record in records:
        shape = " x ".join(map(str, record["shape"]))
        for size in record.get("batch", ()):
            shape = f"{size} x ({shape})"
        path = Path(record["path"])
        link = f"[{path.stem}]({{root}}{path.as_posix()})"
        name = marked(link, record["name"], record)
        if record["timing"] is None:
            yield shape, name, f"**{record['status']}**", "", "", "", "", ""
            continue
        time = record["timing"]
        ratios = {peer["name"]: peer["ratio"] for peer in record["peers"]}
        ratios["jax-example"] = ratios.get("jax-example") or beside_example(record)
        yield (
            shape,
            name,
            f"{time['median_us']:.1f}",
            f"{time['tflops']:.0f}",
            f"{time['tb_per_s']:.2f}",
            "" if time["roofline"] is None else f"{time['roofline']:.0%}",
            *(told(ratios.get(peer)) for peer in ("xla", "jax-example")),
        )


def told(ratio):
    """Returns a ratio as the table has it, or why there is none."""
    if ratio is None:
        return NOT_MEASURED
    return ratio if isinstance(ratio, str) else f"{ratio:.3f}"


def means(records):
    """Tells the geometric mean of every peer's ratios."""
    ratios = {}
    for record in records:
        for peer in record["peers"]:
            if peer["ratio"] is not None:
                ratios.setdefault(peer["name"], []).append(peer["ratio"])
    told = [
        f"{statistics.geometric_mean(each):.3f} over {name} ({len(each)} shapes)"
        for name, each in ratios.items()
    ]
    return f"Geometric means: {', '.join(told)}." if told else ""


def beside_example(record):
    """Returns what `jax_example.py` found of a kernel, if it looked; and if of other code."""
    if not exists(EXAMPLE):
        return None
    with read_from(EXAMPLE):
        for other in load(EXAMPLE)["results"]:
            if all(other[key] == record[key] for key in ("name", "shape")):
                ratio = told(other["example_ratio"] or NOT_POSSIBLE)
                same = other["source_digest"] == record["source_digest"]
                return ratio if same else f"{ratio} ({EARLIER})"
    return None


def example(result):
    """Tells of JAX's shipped matmul beside ours."""
    rows = [
        (
            " x ".join(map(str, each["shape"])),
            each["name"],
            f"{statistics.median(each['us']['ours']):.1f}",
            f"{each['xla_ratio']:.3f}",
            told(each["example_ratio"] or NOT_POSSIBLE),
            each["detail"] or best_tried(each),
        )
        for each in result["results"]
    ]
    head = (
        "m x n x k",
        "kernel",
        "us",
        "XLA / ours",
        "JAX's example / ours",
        "its best",
    )
    return f"""## Beside JAX's shipped Hopper matmul

`jax_example.py` compiled up to {result["most"]} configurations of it at every size, timed
each, and took the best two again in turns with ours and XLA, {result["rounds"]} rounds, on one
{result["machine"]["device"]}; [results/{EXAMPLE}](results/{EXAMPLE}) has them all.

{table(head, rows)}

"""


def best_tried(record):
    ran = [each for each in record["tried"] if each["us"] is not None]
    if not ran:
        return "none ran"
    best = min(ran, key=lambda each: each["us"])
    return f"{best['configuration']} ({len(ran)} ran)"
