"""Random specs: each is refused with reasons, or becomes a kernel that is right."""

import functools
import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from made import module, plan_or_problems

from kgen.rules import all_rules

DTYPES = ("float16", "bfloat16", "float32")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
SIZES = st.one_of(
    st.sampled_from([8, 16, 24, 32, 48, 64, 96, 128, 192, 256]), st.integers(1, 300)
)


# Two of five are of float8.
OPERANDS = 2 * [(dtype, dtype) for dtype in DTYPES] + [
    *itertools.product(FLOAT8, FLOAT8)
]


def one_or_none(key, values, absent):
    """Returns lines that give a key one of these values, and so many times none."""

    def line(value):
        text = f'"{value}"' if isinstance(value, str) else str(value).lower()
        return f"{key} = {text}\n"

    nothing = [st.sampled_from([""]) for _ in range(absent)]  # Alike are one.
    return st.one_of(*nothing, values.map(line))


def tables(sizes=SIZES, shared=True, absent=1):
    """Returns the tables of specs; most are illegal in one way or another.

    They are put together once: to make a strategy takes longer than to draw from it.

    Args:
      sizes: Of tiles.
      shared: Whether CTAs may share tiles, and tiles a CTA.
      absent: How many times rather than given a key is absent.
    """
    maybe = functools.partial(one_or_none, absent=absent)
    pieces = (
        "[kernel]\n",
        maybe("autodiff", st.booleans()),
        maybe("layout", st.sampled_from(["nn", "nt", "tn", "tt"])),
        maybe("out_order", st.sampled_from(["row", "column"])),
        maybe("entry_point", st.sampled_from(["kernel", "pallas_call"])),
        "[shapes]\n",
        maybe("edge", st.sampled_from(["exact", "any"])),
        maybe("batch", st.booleans()),
        "[tile]\n",
        *(maybe(key, sizes) for key in "mnk"),
        "[pipeline]\n",
        maybe("max_concurrent_steps", st.integers(1, 8)),
        maybe("delay_release", st.integers(0, 3)),
        maybe("wgmma_in_flight", st.integers(0, 3)),
        maybe("promote", st.booleans()),
        "[schedule]\n",
        maybe("warp_specialized", st.booleans()),
        maybe("num_compute_wgs", st.integers(1, 4)),
        maybe("split", st.sampled_from(["m", "n"])),
        maybe("memory_registers", st.sampled_from([24, 40, 42, 128, 240])),
        *(what_shares(maybe) if shared else ()),
        "[transforms]\n",
        maybe("swizzle", st.sampled_from([32, 64, 128, "auto"])),
        "[store]\n",
        maybe("n", sizes),
        maybe("slots", st.integers(1, 4)),
        "[dtypes]\n",
        maybe("out", st.sampled_from(DTYPES)),
    )
    drawn = [st.just(piece) if isinstance(piece, str) else piece for piece in pieces]
    scale = maybe("block", st.just(128))
    return st.builds(
        of_operands, st.sampled_from(OPERANDS), scale, st.tuples(*drawn).map("".join)
    )


def what_shares(maybe):
    """Yields what has CTAs share tiles, and tiles a CTA."""
    yield maybe("persistent", st.booleans())
    yield maybe("ping_pong", st.booleans())
    yield maybe("split_k", st.integers(2, 3))
    yield maybe("swap_operands", st.booleans())
    yield "[cluster]\n"
    for key in "mn":
        yield maybe(key, st.sampled_from([1, 2]))
    yield "[raster]\n"
    yield maybe("order", st.sampled_from(["m", "n"]))
    yield maybe("width", st.integers(1, 3))


def of_operands(dtypes, scale, rest):
    """Returns tables that end with those of the operands; float8 may have scales."""
    a, b = dtypes
    scales = scale if a in FLOAT8 else ""
    return f'{rest}a = "{a}"\nb = "{b}"\n[scales]\n{scales}'


@pytest.mark.without_jax
@settings(max_examples=1500, deadline=None)
@given(tables())
def test_a_spec_is_planned_or_refused_with_reasons(text):
    made, problems = plan_or_problems(text)
    if made is None:
        assert problems
        assert all(problem.code in all_rules() for problem in problems)
        assert all(problem.line for problem in problems)
        return
    assert made.smem.total <= made.smem.limit
    assert made.registers.estimate <= made.registers.compute_limit
    rows, columns = made.wg_m, made.wg_n
    if made.swap_operands:
        rows, columns = columns, rows
    assert rows % 64 == 0
    assert columns % 8 == 0
    assert made.wg_n % made.store_n == 0
    assert made.delay_release >= made.wgmma_in_flight
    assert all(case.smem_bytes <= made.smem.total for case in made.cases)


# Leading dimensions of A and B, where a kernel takes batches.
LEADING = [((), ()), ((2,), (2,)), ((2,), ()), ((1,), (2,)), ((2, 1), (2,)), ((), (2,))]
SMALL = st.sampled_from([4, 8, 12, 16, 24, 32, 40, 44, 64, 96, 128, 192])


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
# CTAs that share tiles are simulated by tests/execution/test_schedules.py.
@given(
    tables(sizes=SMALL, shared=False, absent=3),
    st.tuples(st.just(2), st.integers(1, 3), st.integers(1, 6)),
    st.tuples(*[st.integers(0, 191)] * 3),
    st.sampled_from(LEADING),
)
def test_a_planned_spec_is_a_kernel_that_is_right(text, counts, less, leading):
    made, _ = plan_or_problems(text)
    assume(made is not None)
    with tempfile.TemporaryDirectory() as directory:
        built = module(Path(directory), made)
        built.lower()
        built.simulate(built.at(counts, less=less, leading=leading))
