"""What measuring workers take instead of a GPU, and modules for them to measure.

Everything but the GPU is as it is: processes, events, limits, files.
"""

import os
import time

import jax
import jax.numpy as jnp

from kgen.measure import example
from kgen.measure.problem import Problem
from kgen.measure.worker import Session

SESSION = "measure_stand_ins:on_cpu"

MODULE = '''"""C = A @ B, made up.

    a    {dtype}[m, k]    m a multiple of 64, k of 32
    b    {dtype}[{b}]    n a multiple of 64
    out  {dtype}[m, n]    accumulated in float32

    from {name} import matmul

Made for NVIDIA Hopper GPUs (sm_90a).
"""
import os
import time

import jax.numpy as jnp


def matmul(a, b):
    if a.shape[0] == 640:
        raise ValueError(f"m must not be 640, got {{a.shape[0]}}")
    product = jnp.dot(a, b{t}, preferred_element_type=jnp.float32)
    {body}
    return product.astype(a.dtype)
'''


def on_cpu(arch):
    """Measures on a CPU; a call takes as many microseconds as the environment says."""
    return Session(device=jax.devices("cpu")[0], l2_bytes=20_000, measure=measure)


def measure(run, sets, runs):
    us = os.environ.get("STAND_IN_US")
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        jax.block_until_ready(run(list(sets)))
        times.append(1e6 * (time.perf_counter() - start))
    return times if us is None else [float(us) * len(sets)] * runs


def write_module(directory, name="made_up", *, dtype="bfloat16", layout="nn", body=""):
    """Writes a module that says what it computes, and returns its path."""
    path = directory / f"{name}.py"
    b, t = ("k, n", "") if layout == "nn" else ("n, k", ".T")
    path.write_text(
        MODULE.format(name=name, dtype=dtype, b=b, t=t, body=body or "pass"), "utf-8"
    )
    return path


SWEPT = Problem(
    shape=(64, 128, 64),
    operand_dtype="bfloat16",
    b_dtype="bfloat16",
    out_dtype="bfloat16",
)
"""A product for which the sweep has six configurations."""

PLANTED = ("hang", "abort", "raise", "wrong", "20 us", "10 us")
"""What becomes of them."""


def sweeping(arch):
    """Measures on a CPU, where functions stand in for JAX's example."""
    tried = []

    def function(configuration):
        planted = PLANTED[example.examples(SWEPT).index(configuration)]
        tried.append(planted)

        def product(a, b):
            if planted == "hang":
                time.sleep(600)
            if planted == "abort":
                os.abort()
            if planted == "raise":
                raise RuntimeError("planted")
            product = jnp.dot(a, b, preferred_element_type=jnp.float32)
            return (product + (planted == "wrong")).astype(a.dtype)

        return product

    def measure(run, sets, runs):
        return [float(tried[-1].removesuffix(" us")) * len(sets)] * runs

    example.function = function
    return Session(device=jax.devices("cpu")[0], l2_bytes=20_000, measure=measure)
