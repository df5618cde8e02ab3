"""Random epilogues over schedules: refused with reasons, or right."""

import tempfile
from pathlib import Path

import pytest
from drawn import DTYPES, chains
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from made import module, plan_or_problems

from kgen.emit.render import render_unformatted
from kgen.epilogue.steps import read, with_argument
from kgen.rules import all_rules

SCHEDULES = {
    "pipelined": ("", (64, 128)),
    "split_m": ("warp_specialized = true\n", (128, 64)),
    "split_n": ('warp_specialized = true\nsplit = "n"\n', (64, 128)),
    "split_k": (
        "warp_specialized = true\nnum_compute_wgs = 1\nsplit_k = 2\n",
        (64, 64),
    ),
    "swapped": ("warp_specialized = true\nswap_operands = true\n", (16, 128)),
    "persistent": (
        "warp_specialized = true\nnum_compute_wgs = 1\npersistent = true\n",
        (64, 64),
    ),
}


@st.composite
def specs(draw, schedules=tuple(SCHEDULES)):
    """Returns the tables of a spec with an epilogue; many are illegal."""
    schedule, (m, n) = SCHEDULES[draw(st.sampled_from(schedules))]
    out = draw(st.sampled_from(DTYPES))
    text = f'[schedule]\n{schedule}[tile]\nm = {m}\nn = {n}\n[dtypes]\nout = "{out}"\n'
    shapes = st.sampled_from(["", 'edge = "any"\n', "batch = true\n"])
    text += "[shapes]\n" + "".join(sorted(draw(st.sets(shapes))))
    if draw(st.integers(0, 9)) == 0:
        text += '[kernel]\nentry_point = "pallas_call"\n'
    return text + draw(chains(1, 5))


@pytest.mark.without_jax
@settings(max_examples=1000, deadline=None)
@given(specs())
def test_an_epilogue_is_planned_or_refused_with_reasons(text):
    made, problems = plan_or_problems(text)
    if made is None:
        assert problems
        assert all(problem.code in all_rules() for problem in problems)
        assert all(problem.line for problem in problems)
        return
    names = [step.argument for step in with_argument(made.epilogue)]
    assert len(set(names)) == len(names)
    assert made.stores % made.store_slots in range(made.stores)
    assert made.smem.total <= made.smem.limit


@pytest.mark.without_jax
@settings(max_examples=60, deadline=None)
@given(specs())
def test_a_module_is_python_and_says_what_it_computes(text):
    made, _ = plan_or_problems(text)
    assume(made is not None)
    source = render_unformatted(made)
    compile(source, "module", "exec")
    assert read(source) == made.epilogue


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(specs(schedules=("pipelined", "split_m", "split_n", "split_k", "swapped")))
@example(
    '[tile]\nm = 64\nn = 128\n[dtypes]\nout = "float16"\n'
    '[[epilogue]]\nop = "scale"\nvalue = 448.0\n'
)
def test_a_planned_epilogue_is_right(text):
    made, _ = plan_or_problems(text)
    assume(made is not None)
    with tempfile.TemporaryDirectory() as directory:
        built = module(Path(directory), made)
        request = built.at((1, 2, 4), less=(3, 5, 7), leading=((2, 1), (2,)))
        built.lower(request)
        built.simulate(request)
