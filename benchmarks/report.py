"""Writes benchmarks/README.md from the result files; no figure is typed by hand.

python benchmarks/report.py            writes it
python benchmarks/report.py --check    exit 1 if it is not what the results say

The table of results/h200.json also stands in the README, between the comments
`<!-- h200 -->` and `<!-- /h200 -->`, and what results/gpu_proof.json proves between those of
`proof`.
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import result_files
import why
from kernel_times import EXAMPLE, example, tuned
from own_speed import speed
from proofs import limits, mutants, proof, told_briefly
from result_files import exists, load, read
from searches import searches

PAGE = result_files.ROOT / "benchmarks" / "README.md"
README = result_files.ROOT / "README.md"
TUNED = "h200_tune.jsonl"
MUTANTS = "mutants_gpu.json"
H200 = "h200.json"
FEATURES = "h200_features.json"
OTHERS = "h200_others.json"
PROOF = "gpu_proof.json"
COUNTERS = "h200_counters.json"
VARIANTS = "h200_variants.json"


def page():
    found = exists(TUNED) and exists(H200) and searches(read(TUNED), load(H200))
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
    counted = exists(COUNTERS) and why.counters(load(COUNTERS), COUNTERS)
    tried = exists(VARIANTS) and why.variants(load(VARIANTS), VARIANTS)
    where = "".join(
        why.timeline(load(path.name), path.name)
        for path in sorted(result_files.RESULTS.glob("timeline_*.json"))
    )
    return f"""# Benchmarks

Written by `python benchmarks/report.py` from the files in [results/](results).

{on_h200 or ""}{features or ""}{others or ""}{shipped or ""}{why.MISSED}{counted or ""}{tried or ""}{where}{found or ""}{proved or ""}
{limits(load("register_limits.json"))}
{on_gpu or ""}{speed(load("speed.json"))}"""


def readme(text):
    """Returns the README with what the results say in its sections."""
    if exists(H200):
        text = filled(text, "h200", tuned(load(H200), root="", name=H200))
    if exists(PROOF):
        text = filled(text, "proof", told_briefly(load(PROOF)))
    return text


def filled(text, name, section):
    """Returns a text with a section between two comments of that name."""
    between = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    found, count = between.subn(lambda m: f"{m[1]}{section}{m[2]}", text)
    if count != 1:
        sys.exit(f"README.md needs one section <!-- {name} --> ... <!-- /{name} -->")
    return found


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
            name = path.relative_to(README.parent)
            print(f"{name} differs; run python benchmarks/report.py")
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
