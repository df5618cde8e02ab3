"""Writes benchmarks/README.md from the result files; no figure is typed by hand.

python benchmarks/report.py            writes it
python benchmarks/report.py --check    exit 1 if it is not what the results say

The table of results/h200.json also stands in the README, between the comments
`<!-- h200 -->` and `<!-- /h200 -->`.
"""

import argparse
import collections
import json
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT))
import why  # noqa: E402

from kgen.code import code_digest  # noqa: E402

HERE = Path(__file__).resolve().parent
GENERATED = HERE.parent / "generated"
PAGE = HERE / "README.md"
TUNED = "h200_tune.jsonl"
AS_COMMITTED, NOT_MEASURED = "as committed", "not measured"
MUTANTS = "mutants_gpu.json"
H200 = "h200.json"
FEATURES = "h200_features.json"
OTHERS = "h200_others.json"
EXAMPLE = "h200_jax_example.json"
PROOF = "gpu_proof.json"
COUNTERS = "h200_counters.json"
VARIANTS = "h200_variants.json"
README = HERE.parent / "README.md"
SECTION = re.compile("(<!-- h200 -->\n).*?(<!-- /h200 -->)", re.DOTALL)
UNITS = {"s": "s", "mb": "MB"}


def load(name):
    return json.loads((HERE / "results" / name).read_text(encoding="utf-8"))


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def is_committed(name, outcome):
    """Whether a result is about the text that is committed now."""
    path = GENERATED / f"{name}.py"
    if not path.exists():
        return "no longer there"
    text = path.read_text(encoding="utf-8")
    same = outcome["source_digest"] == code_digest(text)
    return AS_COMMITTED if same else "an earlier text"


def proof_rows(modules):
    for module in modules:
        name, last = module["name"], module["levels"][-1]
        yield (
            f"[{name}](../generated/{name}.py)",
            "yes" if module["right"] else f"**no**: {last['detail']}",
            len(module["sizes"]),
            ", ".join(last["notes"]),
            is_committed(name, module),
        )


def proof(result):
    machine = result["machine"]
    head = ("kernel", "right", "sizes", "what ptxas says", "text")
    return f"""## The catalogue on a GPU

`gpu_proof.py` ran the level `gpu` of `kgen verify` on every module, on one
{machine["device"]} with JAX {machine["jax"]} and driver {machine["driver"]};
[results/gpu_proof.json](results/gpu_proof.json) has every size. "Right" means at every
size: exact on small integers, within the tolerance of float64 on normal values, the same
bits in 50 runs, and nothing left unwritten. Large sizes are in the tables above.

{table(head, proof_rows(result["modules"]))}
"""


def limits(result):
    head = ("compute warpgroups", "tile m x n", "accumulator", "outcome")
    rows = [
        (
            kernel["compute_wgs"] or "not warp-specialised",
            f"{kernel['m']} x {kernel['n']}",
            kernel["accumulator"],
            (
                f"{kernel['spilled_bytes']} bytes spilled"
                if kernel["compiled"]
                else f"ptxas: {kernel['error']}"
            ),
        )
        for kernel in result["kernels"]
    ]
    return f"""## Where accumulators stop fitting

`register_limits.py` compiled and ran kernels on both sides of the border on one
{result["machine"]["device"]}; [results/register_limits.json](results/register_limits.json).
Rules KG402 and KG405 draw the same border, as a test checks. The accumulator is told in
registers per thread.

{table(head, rows)}
"""


def mutants(result):
    """Tells what planted faults did on a GPU, kind by kind."""
    machine = result["machine"]
    outcomes = ("wrong silently", "not bit-identical", "hang", "error", "right by luck")
    counts = {}
    for kernel in result["kernels"]:
        if kernel["kind"] and kernel["outcome"] in outcomes:
            count = counts.setdefault(kernel["kind"], collections.Counter())
            count[kernel["outcome"]] += 1
    rows = [
        (kind, *(count[outcome] or "" for outcome in outcomes))
        for kind, count in counts.items()
    ]
    total = sum(counts.values(), collections.Counter())
    rows.append(("all", *(total[outcome] for outcome in outcomes)))
    right = sum(k["outcome"] == "right" for k in result["kernels"])
    return f"""## Planted faults on a GPU

`mutants_gpu.py` ran kernels with planted faults on one {machine["device"]} with JAX
{machine["jax"]}, each {result["runs"]} times at a small size and at some 4096 x 4096 x
4096; [results/mutants_gpu.json](results/mutants_gpu.json). What each kind did there, in
numbers of kernels; {right} kernels without a fault were right.

{table(("fault", *outcomes), rows)}

"""


def speed(result):
    machine, limits = result["machine"], result["limits"]
    rows = []
    for name, value in result["figures"].items():
        what, _, unit = name.rpartition("_")
        unit = UNITS[unit]
        told = (value["median"], value["best"], limits[name])
        rows.append((what.replace("_", " "), *(f"{figure} {unit}" for figure in told)))
    return f"""## kgen itself

`speed.py` measured on {machine["cores"]} cores ({machine["processor"]}), Python
{machine["python"]}, JAX {machine["jax"]}, black {machine["black"]}, with a load of
{result["load_before"]:.1f} before it began; [results/speed.json](results/speed.json). The
machine is a virtual one whose speed changes by half within minutes: the best is what kgen
takes when it gets its cores.

{table(("what", "median", "best", "limit"), rows)}
"""


def exists(name):
    return (HERE / "results" / name).exists()


def beside_example(record):
    """Returns what `jax_example.py` measured of the same code, if it did."""
    if not exists(EXAMPLE):
        return None
    for other in load(EXAMPLE)["results"]:
        same = ("name", "shape", "source_digest")
        if all(other[key] == record[key] for key in same):
            return other["example_ratio"]
    return None


def example(result):
    """Tells of JAX's shipped matmul beside ours."""
    rows = [
        (
            " x ".join(map(str, each["shape"])),
            each["name"],
            f"{statistics.median(each['us']['ours']):.1f}",
            f"{each['xla_ratio']:.3f}",
            (
                NOT_MEASURED
                if each["example_ratio"] is None
                else f"{each['example_ratio']:.3f}"
            ),
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


def tuned_rows(records):
    for record in records:
        shape = " x ".join(map(str, record["shape"]))
        for size in record.get("batch", ()):
            shape = f"{size} x ({shape})"
        path = Path(record["path"])
        name = f"[{path.stem}]({{root}}{path.as_posix()})"
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
            *(
                NOT_MEASURED if ratios.get(peer) is None else f"{ratios[peer]:.3f}"
                for peer in ("xla", "jax-example")
            ),
        )


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
    return f"""One {machine["device"]}, JAX {machine["jax"]}, CUDA {machine["cuda"]}, driver
{machine["driver"]}: medians of {result["rounds"]} rounds in turns with the others, on
independent normal values, each time on other operands than L2 holds. Above 1 is faster
than the other. {verified} of {len(records)} passed `kgen verify --level gpu` in the same
run; [every round's time]({results}). The code of {same} of {len(records)} is the one that
is committed{rest}.

{table(head, tuned_rows(records)).replace("{root}", root)}

{means(records)}
"""


def timeline(found, name):
    """Tells what the warpgroups of a kernel did when."""
    size = " x ".join(map(str, found["shape"]))
    rows = [
        (
            row["warpgroup"],
            row["scope"],
            row["turn"],
            *(f"{row[key]:.2f}" for key in ("begins", "takes", "latest_end")),
        )
        for row in found["rows"]
    ]
    head = ("warpgroup", "what", "turn", "begins", "takes", "latest end")
    return f"""## Where the time of {size} goes

`timeline.py` ran {found["kernel"]} once on one {found["device"]} under Mosaic GPU's
profiler, in {found["unit"]}: medians over the CTAs, and the latest of all. The tensor cores
need {found["tile_cycles"]} for one tile; [results/{name}](results/{name}).

{table(head, rows)}

"""


def readme(text):
    """Returns the README with the table in its section."""
    if not exists(H200):
        return text
    section = tuned(load(H200), root="", name=H200)
    found, count = SECTION.subn(lambda m: f"{m[1]}{section}{m[2]}", text)
    if count != 1:
        sys.exit("README.md needs one section <!-- h200 --> ... <!-- /h200 -->")
    return found


def searches(text):
    """Tells what `kgen tune` found at each size."""
    measured = collections.defaultdict(dict)
    for line in text.splitlines():
        result = json.loads(line)
        if result["outcome"] == "measured":
            size = " x ".join(map(str, result["key"]["shape"]))
            us = statistics.median(result["us"])
            ratio = statistics.median(result["peer_us"]) / us
            told = (us, ratio, result["values"])
            best = measured[size].get(result["digest"], told)
            measured[size][result["digest"]] = min(best, told, key=lambda of: of[0])
    rows = []
    for size, candidates in measured.items():
        us, ratio, values = min(candidates.values(), key=lambda of: of[0])
        said = ", ".join(f"{k.split('.')[-1]} {v}" for k, v in values.items() if v)
        rows.append((size, len(candidates), f"{us:.1f}", f"{ratio:.3f}", said))
    head = ("m x n x k", "measured", "us", "XLA / ours", "the fastest")
    return f"""## What `kgen tune` found

On one NVIDIA H200; [results/h200_tune.jsonl](results/h200_tune.jsonl) has every candidate
that was tried, with its times. Two of the fastest may differ by less than the noise.

{table(head, rows)}

"""


def page():
    found = exists(TUNED) and searches((HERE / "results" / TUNED).read_text("utf-8"))
    on_gpu = exists(MUTANTS) and mutants(load(MUTANTS))
    on_h200 = exists(H200) and (
        "## Tuned kernels\n\n`h200.py` measured them."
        f" {tuned(load(H200), '../', H200)}\n"
    )
    features = exists(FEATURES) and (
        "## Layouts, sizes, epilogues, 8-bit floats\n\n`h200.py` measured them,"
        f" too, beside XLA's own formulation; scales of 8-bit floats beside its product"
        f" without them. {tuned(load(FEATURES), '../', FEATURES)}\n"
    )
    others = exists(OTHERS) and (
        "## Other kernels\n\n`h200.py` measured them in another run."
        f" {tuned(load(OTHERS), '../', OTHERS)}\n"
    )
    proved = exists(PROOF) and proof(load(PROOF))
    shipped = exists(EXAMPLE) and example(load(EXAMPLE))
    counted = exists(COUNTERS) and why.counters(load(COUNTERS), COUNTERS, table)
    tried = exists(VARIANTS) and why.variants(load(VARIANTS), VARIANTS, table)
    where = "".join(
        timeline(json.loads(path.read_text("utf-8")), path.name)
        for path in sorted((HERE / "results").glob("timeline_*.json"))
    )
    return f"""# Benchmarks

Written by `python benchmarks/report.py` from the files in [results/](results).

{on_h200 or ""}{features or ""}{others or ""}{shipped or ""}{why.MISSED}{counted or ""}{tried or ""}{where}{found or ""}{proved or ""}
{limits(load("register_limits.json"))}
{on_gpu or ""}{speed(load("speed.json"))}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    wanted = {PAGE: page(), README: readme(README.read_text(encoding="utf-8"))}
    stale = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if options.check:
            name = path.relative_to(HERE.parent)
            print(f"{name} differs; run python benchmarks/report.py")
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
