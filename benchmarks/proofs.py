"""Tells in the benchmarks' page what ran right on a GPU, and what did not: see report.py."""

import collections

from result_files import AS_COMMITTED, is_committed, table


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


def told_briefly(result):
    """Returns a sentence on how many modules were right, for the README."""
    machine, modules = result["machine"], result["modules"]
    right = sum(module["right"] for module in modules)
    same = sum(is_committed(m["name"], m) == AS_COMMITTED for m in modules)
    return f"""The level `gpu` ran on all of the catalogue on one {machine["device"]} with JAX
{machine["jax"]}, see [benchmarks/](benchmarks/README.md): {right} of {len(modules)} modules were right. The code of
{same} of {len(modules)} is the one that is committed.
"""


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
