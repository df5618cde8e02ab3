"""Every legality rule has an example that breaks it and one that does not."""

import itertools
import json
import re

import pytest
from made import load

from kgen.emit.render import render
from kgen.errors import SpecError
from kgen.pipeline import request_of
from kgen.plan import legality, make_plan, matmul
from kgen.plan.legality.base import CHECKS
from kgen.rules import all_rules

pytestmark = pytest.mark.without_jax

LEGALITY = [rule for code, rule in all_rules().items() if code in CHECKS]


@pytest.mark.parametrize("rule", LEGALITY, ids=lambda rule: rule.code)
def test_the_bad_example_breaks_the_rule(rule, tmp_path):
    spec = load(tmp_path, rule.bad + "\n")
    assert list(CHECKS[rule.code](matmul.resolve(spec)))
    with pytest.raises(SpecError):
        make_plan(spec)


@pytest.mark.parametrize("rule", LEGALITY, ids=lambda rule: rule.code)
def test_the_good_example_breaks_none(rule, tmp_path):
    make_plan(load(tmp_path, rule.good + "\n"))


ALLOWABLE = [rule for rule in LEGALITY if rule.allowable]


@pytest.mark.parametrize("rule", ALLOWABLE, ids=lambda rule: rule.code)
def test_an_allowed_rule_may_be_broken(rule, tmp_path):
    allow = [rule.code]
    # What follows from a breach is told once that is allowed.
    for _ in range(3):
        tables = f"{rule.bad}\n[verify]\nallow = {json.dumps(allow)}\n"
        spec = load(tmp_path, tables)
        problems = legality.check(matmul.resolve(spec))
        allow = sorted({*allow, *(problem.code for problem in problems)})
    plan = make_plan(spec)
    assert plan.allow == tuple(allow)
    told = f"verified: static ({', '.join(allow)} allowed), lower, simulate."
    module = render(plan, verified=True)
    assert f"\n# {told}\n" in module.source
    assert request_of(plan, module).allow == tuple(allow)
    assert "allowed" not in render(plan, verified=False).source


def test_what_is_allowed_is_what_can_be():
    assert not {rule.code for rule in ALLOWABLE} & {"KG105", "KG106", "KG201", "KG610"}
    assert not any(r.allowable for c, r in all_rules().items() if c.startswith("KG0"))


def test_no_two_examples_are_alike():
    bad = [rule.bad for rule in LEGALITY]
    assert len(set(bad)) == len(bad)


def test_stages_that_a_message_proposes_fit(tmp_path):
    tables = "[pipeline]\nmax_concurrent_steps = {stages}\n"
    with pytest.raises(SpecError) as error:
        make_plan(load(tmp_path, tables.format(stages=16)))
    proposed = re.search(r"max_concurrent_steps = (\d+) fits", str(error.value))[1]
    make_plan(load(tmp_path, tables.format(stages=proposed)))
    with pytest.raises(SpecError, match="KG401"):
        make_plan(load(tmp_path, tables.format(stages=int(proposed) + 1)))


@pytest.mark.parametrize("swapped", ["false", "true"])
@pytest.mark.parametrize("wgs", [1, 2, 3])
@pytest.mark.parametrize("scales", ["", "[scales]\nblock = 128\n"])
@pytest.mark.parametrize("tile", [*itertools.product((128, 256, 384), (128, 256))])
def test_tiles_that_a_message_proposes_are_legal(tmp_path, tile, scales, wgs, swapped):
    m, n = tile
    text = (
        '[kernel]\nlayout = "nt"\n[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
        f"[schedule]\nwarp_specialized = true\nnum_compute_wgs = {wgs}\n"
        f"swap_operands = {swapped}\n{scales}[tile]\nm = {m}\nn = {n}\n"
    )
    problems = legality.check(matmul.resolve(load(tmp_path, text)))
    for problem in problems:
        named = re.search(r"tile\.(m|n) = (\d+) fits", problem.hint or "")
        if problem.code == "KG402" and named:
            axis, size = named.groups()
            old = f"{axis} = {m if axis == 'm' else n}\n"
            assert text.count(f"\n{old}") == 1
            make_plan(load(tmp_path, text.replace(f"\n{old}", f"\n{axis} = {size}\n")))


def test_registers_that_a_message_allows_are_allowed(tmp_path):
    tables = (
        "[tile]\nm = 192\n[schedule]\nwarp_specialized = true\nnum_compute_wgs = 3\n"
        "memory_registers = {registers}\n"
    )
    with pytest.raises(SpecError) as error:
        make_plan(load(tmp_path, tables.format(registers=200)))
    allowed = re.search(r"allowed: at most (\d+)", str(error.value))[1]
    make_plan(load(tmp_path, tables.format(registers=allowed)))
    with pytest.raises(SpecError, match="KG404"):
        make_plan(load(tmp_path, tables.format(registers=int(allowed) + 8)))
