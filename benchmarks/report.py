"""Writes benchmarks/README.md from the result files; no figure is typed by hand.

python benchmarks/report.py            writes it
python benchmarks/report.py --check    exit 1 if it is not what the results say

The table of results/h200.json also stands in the README, between the comments
`<!-- h200 -->` and `<!-- /h200 -->`, and what results/gpu_proof.json proves between those of
`proof`.
"""

import argparse
import functools
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import result_files
import why
from kernel_times import EXAMPLE, example, tuned
from own_speed import speed
from proofs import limits, mutants, proof, told_briefly
from result_files import exists, told, told_if_there
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
    found = searches(TUNED, H200) if exists(TUNED) and exists(H200) else ""
    on_gpu = told_if_there(MUTANTS, mutants)
    on_h200 = measured(H200, "Tuned kernels", "`h200.py` measured them.")
    features = measured(
        FEATURES,
        "Layouts, sizes, epilogues, 8-bit floats",
        "`h200.py` measured them, too, beside XLA's own formulation; scales of 8-bit"
        " floats beside its product without them.",
    )
    others = measured(
        OTHERS, "Other kernels", "`h200.py` measured them in another run."
    )
    proved = told_if_there(PROOF, proof)
    shipped = told_if_there(EXAMPLE, example)
    counted = told_if_there(COUNTERS, lambda of: why.counters(of, COUNTERS))
    tried = told_if_there(VARIANTS, lambda of: why.variants(of, VARIANTS))
    names = sorted(p.name for p in result_files.RESULTS.glob("timeline_*.json"))
    where = "".join(
        told(name, functools.partial(why.timeline, name=name)) for name in names
    )
    return f"""# Benchmarks

Written by `python benchmarks/report.py` from the files in [results/](results).

{on_h200}{features}{others}{shipped}{why.MISSED}{counted}{tried}{where}{found}{proved}
{told("register_limits.json", limits)}
{on_gpu}{told("speed.json", speed)}"""


def measured(name, title, how):
    """Returns the section on what `h200.py` wrote into a file, if there is one."""
    return told_if_there(
        name, lambda of: f"## {title}\n\n{how} {tuned(of, '../', name)}\n"
    )


def readme(text):
    """Returns the README with what the results say in its sections."""
    if exists(H200):
        table = told(H200, lambda of: tuned(of, root="", name=H200))
        text = filled(text, "h200", table)
    if exists(PROOF):
        text = filled(text, "proof", told(PROOF, told_briefly))
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
