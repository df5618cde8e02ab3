"""Writes docs/mutations.md: which fault is found by what.

    python -m tests.mutants.table [--check] [--only kgen|jax]

The outcomes are kept in results.json beside this file, and the tests compare them with
what they find. `--check` runs nothing: it says whether the page is that of the outcomes,
and whether these are of the catalogue's mutants.
"""

import argparse
import json
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .bases import bases
from .catalogue import mutants
from .model import Mutant
from .nursery import Nursery
from .outcomes import LEVELS, TIMEOUT, failed_level, found_by, plain, usual_sizes
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
    parser.add_argument("--only", choices=("kgen", "jax"))
    options = parser.parse_args()
    if options.check:
        return _check()
    catalogue = list(mutants())
    old = stored()["mutants"] if RESULTS.exists() else {}
    outcomes: Outcomes = {"jax": "", "mutants": {m.name: {} for m in catalogue}}
    for name, outcome in outcomes["mutants"].items():
        outcome.update(old.get(name, {}))
    if options.only != "jax":
        outcomes["jax"] = _measure_kgen(catalogue, outcomes["mutants"])
    else:
        outcomes["jax"] = stored()["jax"]
    if options.only != "kgen":
        _measure_jax(catalogue, outcomes["mutants"])
    RESULTS.write_text(json.dumps(outcomes, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(_page(outcomes), encoding="utf-8")
    return 0


def _check() -> int:
    outcomes = stored()
    if list(outcomes["mutants"]) != [mutant.name for mutant in mutants()]:
        print(f"{RESULTS.name} is not of the catalogue's mutants", file=sys.stderr)
        return 1
    if PAGE.read_text(encoding="utf-8") != _page(outcomes):
        print(f"{PAGE.name} is not of {RESULTS.name}", file=sys.stderr)
        return 1
    return 0


def _page(outcomes: Outcomes) -> str:
    hardware = (
        json.loads(HARDWARE.read_text(encoding="utf-8")) if HARDWARE.exists() else {}
    )
    return page(list(mutants()), outcomes, hardware)


def _measure_kgen(catalogue: list[Mutant], outcomes: Outcomes) -> str:
    """Verifies every mutant and returns the version of JAX."""
    nurseries: queue.Queue[Nursery] = queue.Queue()
    versions: set[str] = set()
    for _ in range(PROCESSES):
        nurseries.put(Nursery(LEVELS, TIMEOUT))

    def verify(mutant: Mutant) -> None:
        nursery = nurseries.get()
        try:
            verdict = nursery.verify(mutant.request)
        finally:
            nurseries.put(nursery)
        versions.add(verdict.jax_version)
        outcomes[mutant.name]["kgen"] = found_by(failed_level(verdict))

    _in_parallel(verify, catalogue, "kgen")
    while not nurseries.empty():
        nurseries.get().close()
    (version,) = versions
    return version


def _measure_jax(catalogue: list[Mutant], outcomes: Outcomes) -> None:
    def run(mutant: Mutant) -> None:
        sizes = usual_sizes(mutant, bases()[mutant.base])
        outcomes[mutant.name]["jax"] = plain(mutant, sizes)

    _in_parallel(run, catalogue, "jax")


def _in_parallel(
    function: Callable[[Mutant], None], catalogue: list[Mutant], what: str
) -> None:
    """Calls `function` for every mutant and says how far it is."""
    done, lock = 0, threading.Lock()

    def tell(mutant: Mutant) -> None:
        nonlocal done
        function(mutant)
        with lock:
            done += 1
            print(f"{what} {done}/{len(catalogue)} {mutant.name}", file=sys.stderr)

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(tell, catalogue))


if __name__ == "__main__":
    sys.exit(main())
