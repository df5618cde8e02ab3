"""Writes benchmarks/README.md from the result files; no figure is typed by hand.

python benchmarks/report.py            writes it
python benchmarks/report.py --check    exit 1 if it is not what the results say
"""

import argparse
import collections
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GENERATED = HERE.parent / "generated"
PAGE = HERE / "README.md"
TEXT_DIGEST = re.compile(r"text ([0-9a-f]{12})")
MUTANTS = "mutants_gpu.json"
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
    found = TEXT_DIGEST.search(path.read_text(encoding="utf-8"))
    same = found is not None and found[1] == outcome["text_digest"]
    return "as committed" if same else "an earlier text"


def proof_rows(modules):
    for name, outcome in sorted(modules.items()):
        if "error" in outcome:
            yield name, "**no**", outcome["error"], "", "", "", ""
            continue
        sizes, told, time = outcome["sizes"], outcome["ptxas"], outcome["time"]
        yield (
            f"[{name}](../generated/{name}.py)",
            "yes" if outcome["right"] else "**no**",
            f"{len(sizes)}, up to {time['m']} x {time['n']} x {time['k']}",
            sum(size["allclose_to_xla"] for size in sizes),
            f"{told['registers']}, {told['spilled_bytes']} bytes spilled",
            f"{time['us']:.0f} us, {time['tflops']:.0f} TFLOP/s, "
            f"{time['xla_over_ours']:.2f}",
            is_committed(name, outcome),
        )


def proof(result):
    machine = result["machine"]
    head = (
        "kernel",
        "right",
        "sizes",
        "close to XLA's",
        "registers",
        "time at the largest; XLA's / ours",
        "text",
    )
    return f"""## The catalogue on a GPU

`gpu_proof.py` ran every module on one {machine["device"]} with JAX {machine["jax"]} and
driver {machine["driver"]}; [results/gpu_proof.json](results/gpu_proof.json) has every size.
"Right" means at every size: exact on small integers, within the tolerance of float64 on
normal values, the same bits in twenty further runs, and nothing left unwritten. "Close to
XLA's" counts the sizes at which `np.testing.assert_allclose(result, a @ b)` holds with its
default tolerance. Times are medians of kernel time, taken in turns with XLA's; these are
the plain schedules, one tile per CTA.

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


def page():
    on_gpu = (HERE / "results" / MUTANTS).exists() and mutants(load(MUTANTS))
    return f"""# Benchmarks

Written by `python benchmarks/report.py` from the files in [results/](results).

{proof(load("gpu_proof.json"))}
{limits(load("register_limits.json"))}
{on_gpu or ""}{speed(load("speed.json"))}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    if not options.check:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        print("benchmarks/README.md differs; run python benchmarks/report.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
