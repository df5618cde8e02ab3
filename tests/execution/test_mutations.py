"""The proof of the prover: every planted fault is found, and nothing else is."""

import dataclasses
import subprocess
import sys

import pytest
from mutants.catalogue import NAMES, base, faults, kinds, mutant, mutants
from mutants.model import code_of_kernel
from mutants.outcomes import LEVELS, TIMEOUT, failed_level
from mutants.table import ROOT, stored
from oldest import every_third, in_turns, newest_only

from kgen.emit.render import render
from kgen.pipeline import request_of
from kgen.plan import make_plan
from kgen.spec.load import load_file
from kgen.verify import RequestCase, verify
from kgen.verify.request import LOWER, SIMULATE

STORED = stored()
# All are verified when the page is made. Here, for the time, one of each kind, a third
# of them with the oldest JAX and the others with newer ones.
ONE_OF_A_KIND = {fault.kind.name: name for name, (fault, _) in faults().items()}
HERE = in_turns((name,) for name in sorted(ONE_OF_A_KIND.values()))
SPECS = sorted((ROOT / "specs").glob("*.toml"))
# Fewer steps than slots, as many, and more; one tile, and several.
SWEEP = ((1, 1, 1), (2, 1, 3), (1, 2, 7))


def plans():
    """Yields the plans of the catalogue under specs/."""
    for path in SPECS:
        yield from (make_plan(spec) for spec in load_file(path))


PLANS = {plan.name: plan for plan in plans()}


@pytest.mark.parametrize("name", HERE)
def test_the_fault_is_found(name, prover):
    told = STORED["mutants"][name]["kgen"].partition(":")[0]
    # What the page says is left to the simulator was lowered when the page was made.
    levels = [each for each in LEVELS if not (each == LOWER and told == SIMULATE)]
    planted = mutant(name)
    # Else an outcome would stand for another fault, once this one is changed.
    original = base(planted.base)
    assert code_of_kernel(planted.source) != code_of_kernel(original.source)
    verdict = prover.verify(planted.request, levels=levels, timeout=TIMEOUT)
    failed = failed_level(verdict)
    assert failed is not None, [str(level) for level in verdict.levels]
    assert failed.level in LEVELS, failed.detail  # They all can be imported.
    if verdict.jax_version == STORED["jax"]:
        assert failed.level == told


@pytest.mark.parametrize("name", every_third((name,) for name in NAMES))
def test_the_kernel_without_a_fault_passes(name, prover):
    verdict = prover.verify(base(name).request, x64=False)
    assert verdict.passed, str(verdict.failure)


@pytest.mark.parametrize("name", every_third((name,) for name in PLANS))
def test_the_catalogue_passes_over_a_sweep(name, prover):
    plan = PLANS[name]
    unit_m, unit_n, unit_k = plan.units
    cases = tuple(
        RequestCase(m=m * unit_m, n=n * unit_n, k=k * unit_k) for m, n, k in SWEEP
    )
    request = request_of(plan, render(plan, verified=False, prove=False))
    verdict = prover.verify(dataclasses.replace(request, cases=cases))
    assert verdict.passed, str(verdict.failure)


@pytest.mark.parametrize("group", ["barriers", "legality"])
def test_the_verifier_itself_says_the_same(group, prover):
    """The children that share an import of JAX change nothing."""
    of_group = (n for n, (fault, _) in faults().items() if fault.kind.group == group)
    request = mutant(next(of_group)).request
    verdict = verify(request, levels=LEVELS, cache=False, timeout=60)
    here, there = failed_level(prover.verify(request)), failed_level(verdict)
    # Threads may meet in another order: the same fault, told by other accesses.
    assert here.level == there.level


def test_there_are_enough_kinds_and_each_is_said_once():
    names = [kind.name for kind in kinds()]
    assert len(names) == len(set(names)) >= 40
    schedules = {each.schedule for each in mutants()}
    assert {"pipelined", "warp_specialized", "pallas_call", "persistent_ws"} < schedules


@newest_only
def test_the_page_is_that_of_the_outcomes():
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.table", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
