"""Random combinations of everything: refused by a rule, or a kernel that is right.

Operations, dtypes, layouts, schedules, epilogues, batches, edges and sizes, primes and
ones among them. Tiles are small, so that each is lowered and simulated in a second or
two; what rare tiles do is asked by test_random_specs.py.
"""

import dataclasses
import itertools
import tempfile
from pathlib import Path

from drawn import DTYPES, chains
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from made import module, plan_or_problems

from kgen.rules import all_rules
from kgen.verify.request import RequestCase

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
OPERANDS = [*((of, of) for of in DTYPES), *itertools.product(FLOAT8, FLOAT8)]
SIMULATED = 30
SIMULATED_GATES = 15

WS = "warp_specialized = true\n"
ONE = WS + "num_compute_wgs = 1\n"
SCHEDULES = {
    # Of [schedule], tiles along m and n, and a table of its own.
    "pipelined": ("", (64, 64), ""),
    "split m": (WS, (128, 64), ""),
    "split n": (WS + 'split = "n"\n', (64, 128), ""),
    "one warpgroup": (ONE, (64, 64), ""),
    "persistent": (ONE + "persistent = true\n", (64, 64), ""),
    "persistent, of two": (WS + "persistent = true\n", (128, 64), ""),
    "ping-pong": (WS + "persistent = true\nping_pong = true\n", (64, 64), ""),
    "split K": (ONE + "split_k = 2\n", (64, 64), ""),
    "persistent, swapped": (
        WS + "persistent = true\nswap_operands = true\n",
        (24, 128),
        "",
    ),
    "swapped": (WS + "swap_operands = true\n", (16, 128), ""),
    "cluster along m": (ONE, (64, 64), "[cluster]\nm = 2\n"),
    "cluster along n": (ONE, (64, 64), "[cluster]\nn = 2\n"),
    "persistent clusters": (
        ONE + "persistent = true\n",
        (64, 64),
        "[cluster]\nm = 2\n",
    ),
}
ANY = st.sampled_from([1, 2, 3, 5, 7, 8, 13, 31, 61, 64, 67, 97, 127, 131, 193])
WHOLE = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
LEADING = [((), ()), ((2,), (2,)), ((3,), ()), ((), (2,)), ((2, 1), (2,))]


@st.composite
def specs(draw):
    """Returns the tables of a spec; some are illegal in one way or another."""
    schedule, (m, n), more = SCHEDULES[draw(st.sampled_from(sorted(SCHEDULES)))]
    a, b = draw(st.sampled_from(OPERANDS))
    # 16 bits take every layout, anything else the one that rules allow or hardly any.
    layouts = ["nn", "nt", "tn", "tt"] if a in ("float16", "bfloat16") else ["nt"]
    kernel = f'layout = "{draw(st.sampled_from(layouts))}"\n'
    is_gated = draw(st.integers(0, 7)) == 0
    if is_gated:
        activation = draw(st.sampled_from(["silu", "gelu"]))
        kernel += f'name = "gated"\nop = "glu"\nactivation = "{activation}"\n'
    kernel += draw(maybe('out_order = "column"\n', "autodiff = true\n"))
    shapes = draw(maybe('edge = "any"\n', "batch = true\n"))
    out = draw(st.sampled_from(DTYPES))
    steps = draw(st.integers(1, 3))
    scaled = "[scales]\nblock = 128\n" * (a in FLOAT8 and draw(st.booleans()))
    return (
        f"[kernel]\n{kernel}[shapes]\n{shapes}[schedule]\n{schedule}{more}"
        f"[tile]\nm = {m}\nn = {n}\n[pipeline]\nmax_concurrent_steps = {steps}\n"
        f'[dtypes]\na = "{a}"\nb = "{b}"\nout = "{out}"\n{scaled}'
        f"{draw(maybe('[store]\nn = 32\n'))}{draw(chains(0, 3))}"
    )


@st.composite
def gates(draw):
    """Returns the tables of a spec of a gated linear unit, most of them legal."""
    swapped = draw(st.booleans())
    wgs = draw(st.integers(1, 2))
    m, n = draw(st.sampled_from([(8, 64), (24, 64), (40, 128)]))
    if not swapped:
        m, n = 64 * wgs, draw(st.sampled_from([64, 128]))
    schedule = f"{WS}persistent = true\nnum_compute_wgs = {wgs}\n"
    if swapped:
        schedule += "swap_operands = true\n"
    a, out = draw(st.sampled_from(["float16", "bfloat16"])), draw(
        st.sampled_from(DTYPES)
    )
    rows = draw(st.sampled_from(["", "m = 8\n", "m = 16\nslots = 2\n"]))
    columns = draw(st.sampled_from(["", "n = 32\n", "n = 32\nslots = 1\n"]))
    return (
        f'[kernel]\nname = "gated"\nop = "glu"\nlayout = '
        f'"{draw(st.sampled_from(["nn", "nt"]))}"\n'
        f'activation = "{draw(st.sampled_from(["silu", "gelu"]))}"\n'
        f'[shapes]\nedge = "{draw(st.sampled_from(["any", "exact"]))}"\n'
        f"[schedule]\n{schedule}[tile]\nm = {m}\nn = {n}\n"
        f"[pipeline]\nmax_concurrent_steps = {draw(st.integers(1, 3))}\n"
        f"gate_first = {draw(st.integers(0, 3))}\n"
        f'[dtypes]\na = "{a}"\nb = "{a}"\nout = "{out}"\n'
        f"[store]\n{rows if swapped else columns}"
    )


def maybe(*lines):
    """Returns a strategy for some of these lines: a third of the time each."""
    return st.tuples(
        *(st.sampled_from(["", "", line]) for line in lines),
    ).map("".join)


@settings(
    max_examples=SIMULATED,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(
    specs(),
    WHOLE,
    st.tuples(ANY, ANY, ANY),
    st.sampled_from(LEADING),
    st.integers(1, 3),
)
def test_a_combination_is_refused_or_a_kernel_that_is_right(
    text, counts, sizes, leading, ctas
):
    refused_or_right(text, counts, sizes, leading, ctas)


@settings(
    max_examples=SIMULATED_GATES,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(gates(), WHOLE, st.tuples(ANY, ANY, ANY), st.integers(1, 3))
def test_a_gated_unit_is_refused_or_right(text, counts, sizes, ctas):
    refused_or_right(text, counts, sizes, ((), ()), ctas)


def refused_or_right(text, counts, sizes, leading, ctas):
    """Plans, renders, lowers and simulates a spec at a size, if no rule refuses it."""
    made, problems = plan_or_problems(text)
    if made is None:
        assert problems
        assert all(problem.code in all_rules() for problem in problems)
    assume(made is not None)
    if not made.any_edge:
        sizes = [count * unit for count, unit in zip(counts, made.units, strict=True)]
    m, n, k = sizes
    a_batch, b_batch = leading if made.batched else ((), ())
    case = RequestCase(
        m=m,
        n=n,
        k=k,
        a_batch=a_batch,
        b_batch=b_batch,
        num_sms=ctas * made.cluster if made.persistent else None,
        differentiate=made.autodiff
        and not any(
            s % u for s, u in zip(sizes, made.units_to_differentiate, strict=True)
        ),
    )
    with tempfile.TemporaryDirectory() as directory:
        built = module(Path(directory), made)
        request = dataclasses.replace(built.request, cases=(case,))
        built.lower(request)
        built.simulate(request)
