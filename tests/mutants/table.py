"""Writes docs/mutations.md: which fault is found by what.

    python -m tests.mutants.table [--check] [--only kgen|jax|new|page]

The outcomes are kept in results.json beside this file, and the tests compare them with
what they find. An outcome of JAX's is measured once for a mutant and a version of JAX,
one of kgen's every time, or with `--only new` where there is none.
`--check` runs nothing: it says whether the page is that of the outcomes,
and whether these are of the catalogue's mutants.
"""

import argparse
import importlib.metadata
import json
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .bases import base
from .catalogue import mutants
from .model import Mutant, digest
from .nursery import Nursery
from .outcomes import (
    LEVELS,
    NOT_CAUGHT,
    SIZE,
    TIMEOUT,
    failed_level,
    found_by,
    plain,
    usual_sizes,
)
from .page import page

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
HARDWARE = ROOT / "benchmarks" / "results" / "mutants_gpu.json"
PAGE = ROOT / "docs" / "mutations.md"
PROCESSES = 2

type Outcomes = dict[str, Any]


def stored() -> Outcomes:
    """Returns the outcomes that were measured last."""
    outcomes: Outcomes = json.loads(RESULTS.read_text(encoding="utf-8"))
    return outcomes


def main() -> int:
    """Measures and writes, or checks; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", choices=("kgen", "jax", "new", "page"))
    options = parser.parse_args()
    if options.check:
        return _check()
    catalogue = list(mutants())
    outcomes = _begun(catalogue)
    _take_over_hardware(catalogue, outcomes)
    if options.only in (None, "kgen"):
        _measure_kgen(catalogue, outcomes)
    if options.only == "new":
        _measure_kgen(_without(catalogue, outcomes, "kgen"), outcomes)
    if options.only in (None, "jax", "new"):
        _measure_jax(catalogue, outcomes)
    _write(outcomes)
    PAGE.write_text(page(catalogue, outcomes), encoding="utf-8")
    return 0


def _begun(catalogue: list[Mutant]) -> Outcomes:
    """Returns what is known of exactly these mutants on this version of JAX."""
    version = importlib.metadata.version("jax")
    before = (
        stored() if RESULTS.exists() else {"jax": version, "gpu": "", "mutants": {}}
    )
    old = before["mutants"] if before["jax"] == version else {}
    known = {mutant.name: {"digest": digest(mutant)} for mutant in catalogue}
    for name, outcome in known.items():
        if old.get(name, {}).get("digest") == outcome["digest"]:
            outcome.update(old[name])
    return {"jax": version, "gpu": before["gpu"], "mutants": known}


def _take_over_hardware(catalogue: list[Mutant], outcomes: Outcomes) -> None:
    """Adds what benchmarks/mutants_gpu.py found of exactly these mutants, if it ran."""
    if not HARDWARE.exists():
        return
    measured = json.loads(HARDWARE.read_text(encoding="utf-8"))
    outcomes["gpu"] = measured["machine"]["device"]
    found = {(k["name"], k["digest"]): k["outcome"] for k in measured["kernels"]}
    for mutant in catalogue:
        if outcome := found.get((mutant.name, digest(mutant))):
            outcomes["mutants"][mutant.name]["gpu"] = outcome


def _write(outcomes: Outcomes) -> None:
    RESULTS.write_text(json.dumps(outcomes, indent=1) + "\n", encoding="utf-8")


def _check() -> int:
    outcomes = stored()
    measured = {name: of["digest"] for name, of in outcomes["mutants"].items()}
    if measured != {mutant.name: digest(mutant) for mutant in mutants()}:
        print(f"{RESULTS.name} is not of the catalogue's mutants", file=sys.stderr)
        return 1
    if PAGE.read_text(encoding="utf-8") != page(list(mutants()), outcomes):
        print(f"{PAGE.name} is not of {RESULTS.name}", file=sys.stderr)
        return 1
    return 0


def _measure_kgen(catalogue: list[Mutant], outcomes: Outcomes) -> None:
    nurseries: queue.Queue[Nursery] = queue.Queue()
    for _ in range(PROCESSES):
        nurseries.put(Nursery(LEVELS, TIMEOUT))

    def verify(mutant: Mutant) -> str:
        nursery = nurseries.get()
        try:
            return found_by(failed_level(nursery.verify(mutant.request)))
        finally:
            nurseries.put(nursery)

    _in_parallel(verify, catalogue, outcomes, "kgen")
    while not nurseries.empty():
        nurseries.get().close()


def _measure_jax(catalogue: list[Mutant], outcomes: Outcomes) -> None:
    """Runs the mutants of which the outcome is not known: kgen does not change it."""

    def run(mutant: Mutant) -> str:
        return plain(mutant, usual_sizes(mutant, base(mutant.base)))

    for name in {m.base for m in catalogue if usual_sizes(m, base(m.base)) == SIZE}:
        if (outcome := plain(base(name), SIZE)) != NOT_CAUGHT:
            raise SystemExit(
                f"the usual test refuses a right kernel: {name}: {outcome}"
            )

    _in_parallel(run, _without(catalogue, outcomes, "jax"), outcomes, "jax")


def _without(catalogue: list[Mutant], outcomes: Outcomes, column: str) -> list[Mutant]:
    """Returns the mutants of which the outcome in a column is not known."""
    return [m for m in catalogue if column not in outcomes["mutants"][m.name]]


def _in_parallel(
    find: Callable[[Mutant], str],
    catalogue: list[Mutant],
    outcomes: Outcomes,
    column: str,
) -> None:
    """Finds the outcomes of a column; what is known is kept, whatever happens then."""
    lock = threading.Lock()

    def tell(number: int, mutant: Mutant) -> None:
        outcome = find(mutant)
        with lock:
            outcomes["mutants"][mutant.name][column] = outcome
            _write(outcomes)
            told = f"{number}/{len(catalogue)} {mutant.name}: {outcome}"
            print(f"{column} {told}", file=sys.stderr)

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(tell, range(1, len(catalogue) + 1), catalogue))


if __name__ == "__main__":
    sys.exit(main())
