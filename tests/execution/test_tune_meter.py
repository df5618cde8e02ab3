"""What the tuner measures with, on a CPU as far as that goes."""

import functools

import jax
import jax.numpy as jnp
import pytest
from oldest import newest_only

from kgen.measure import machine, timing
from kgen.measure.peers import xla
from kgen.measure.problem import Problem
from kgen.tune.meter import GpuMeter, WrongResultError, worst_error

pytestmark = newest_only

SHAPE = (128, 128, 512)


def problem(dtype="bfloat16", out=None, layout="nn"):
    return Problem(
        shape=SHAPE, operand_dtype=dtype, out_dtype=out or dtype, layout=layout
    )


@pytest.fixture
def meter(monkeypatch):
    """A meter on the CPU, which tells 2 us of whatever it times."""

    def find(arch):
        assert arch == "sm_90a"
        return jax.devices("cpu")[0]

    def two_us(run, sets, runs):
        run(sets)
        return [2.0 * len(sets)] * runs

    monkeypatch.setattr(machine, "find_gpu", find)
    monkeypatch.setattr(machine, "L2_BYTES", {"sm_90a": 300_000})
    monkeypatch.setattr(
        timing, "interleave", functools.partial(timing.interleave, measure=two_us)
    )
    made = GpuMeter(problem(layout="nt"), "sm_90a")
    before = jax.config.jax_default_device
    assert made.connect()["device"] == "cpu"
    made.setup()
    yield made
    jax.config.update("jax_default_device", before)


def test_a_right_candidate_is_timed_in_turns_with_xla(meter):
    prepared = meter.prepare(jax.jit(xla(problem(layout="nt"))))
    times = meter.measure(prepared, 5)
    assert times.us == times.peer_us == (2.0,) * 5
    assert prepared.calls > 1, "operands beyond L2"


def test_a_wrong_candidate_is_not_timed(meter):
    @jax.jit
    def without_the_last_step(a, b):
        return xla(problem(layout="nt"))(a[:, :-64], b[:, :-64])

    with pytest.raises(WrongResultError, match="times what rounding explains"):
        meter.measure(meter.prepare(without_the_last_step), 5)


@pytest.mark.parametrize(
    ("dtype", "out"),
    [("bfloat16", None), ("float16", None), ("float32", None), ("bfloat16", "float32")],
)
def test_rounding_is_no_error_and_all_else_is(dtype, out):
    asked = problem(dtype, out)
    a, b = (
        jax.random.normal(jax.random.key(n), shape).astype(dtype)
        for n, shape in enumerate(asked.operand_shapes)
    )
    expected = jnp.dot(a, b, preferred_element_type=jnp.float32)
    right = expected.astype(asked.out_dtype)
    assert worst_error(right, expected, asked) <= 1
    short = jnp.dot(a[:, 16:], b[16:], preferred_element_type=jnp.float32)
    assert worst_error(short.astype(right.dtype), expected, asked) > 1
    assert worst_error(right.at[7, 9].add(1), expected, asked) > 1
    assert worst_error(right.at[7, 9].set(jnp.nan), expected, asked) == float("inf")
    with pytest.raises(WrongResultError, match=r"the result is \(64, 128\)"):
        worst_error(right[:64], expected, asked)
