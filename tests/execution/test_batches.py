"""Batches with every schedule, and `jax.vmap`, which is one."""

import dataclasses
import functools
import os

os.environ.setdefault("PJRT_NPROC", "64")  # A simulated thread that waits holds one.

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu
from made import module, plan
from oldest import every_third

from kgen.emit.render import render
from kgen.pipeline import request_of
from kgen.verify import RequestCase

BATCH, ANY = "[shapes]\nbatch = true\n", '[shapes]\nbatch = true\nedge = "any"\n'
RING = "[pipeline]\nmax_concurrent_steps = 2\n"
TILE = "[tile]\nm = 64\nn = 64\n"
TWO_WGS = "[schedule]\nwarp_specialized = true\n"
ONE_WG = TWO_WGS + "num_compute_wgs = 1\n"
PERSISTENT = ONE_WG + "persistent = true\n"
PING_PONG = TWO_WGS + "persistent = true\nping_pong = true\n"
CALL = 'entry_point = "pallas_call"\n'
FP8 = '[dtypes]\na = "float8_e4m3fn"\nb = "float8_e5m2"\n'
# What every matrix of B has of its own, or all of them share.
STEPS = "".join(
    f'[[epilogue]]\nop = "{op}"\n'
    for op in ("scale_rows", "bias", "residual", "scale_columns", "relu")
)
RELU = '[[epilogue]]\nop = "relu"\n'
EACH, A_ALONE, B_ALONE = ((2,), (2,)), ((2,), ()), ((1,), (2,))
MIXED, NONE = ((2, 1), (2,)), ((), ())

# The layout and order; the other tables; leading dimensions of A and B; m, n, k; SMs.
KERNELS = {
    "pipelined": ("nn", "row", BATCH + TILE, MIXED, (64, 64, 192), None),
    "pipelined_any": ("nt", "row", ANY + TILE, EACH, (65, 63, 129), None),
    "pallas_call": ("tn", "row", CALL + BATCH + TILE, B_ALONE, (64, 64, 128), None),
    "warpgroups": (
        "nn",
        "row",
        BATCH + "[tile]\nm = 128\nn = 64\n" + TWO_WGS,
        A_ALONE,
        (128, 64, 128),
        None,
    ),
    # Tiles of two matrices in one CTA, and a border between CTAs within a matrix.
    "persistent": ("tt", "column", BATCH + TILE + PERSISTENT, EACH, (192, 64, 256), 2),
    "persistent_any": ("nn", "row", ANY + TILE + PERSISTENT, A_ALONE, (65, 7, 67), 2),
    "ping_pong": ("nn", "row", BATCH + TILE + PING_PONG, B_ALONE, (128, 64, 192), 1),
    "raster": (
        "nn",
        "row",
        BATCH + TILE + ONE_WG + "[raster]\nwidth = 2\n",
        EACH,
        (192, 64, 64),
        None,
    ),
    "cluster": (
        "nn",
        "row",
        BATCH + TILE + ONE_WG + "[cluster]\nm = 2\n",
        A_ALONE,
        (128, 64, 128),
        None,
    ),
    "persistent_cluster": (
        "nt",
        "row",
        BATCH + TILE + PERSISTENT + "[cluster]\nn = 2\n",
        EACH,
        (64, 128, 128),
        2,
    ),
    "swapped": (
        "nn",
        "row",
        BATCH + "[tile]\nm = 16\nn = 64\n" + ONE_WG + "swap_operands = true\n",
        EACH,
        (16, 64, 128),
        None,
    ),
    "promoted": (
        "nt",
        "row",
        FP8 + BATCH + TILE + ONE_WG + "[pipeline]\npromote = true\n",
        B_ALONE,
        (64, 64, 256),
        None,
    ),
    "epilogue": (
        "nn",
        "row",
        BATCH + TILE + ONE_WG + STEPS,
        MIXED,
        (64, 64, 128),
        None,
    ),
    "saved": (
        "nt",
        "row",
        BATCH + TILE + PERSISTENT + STEPS.replace("relu", "save") + RELU,
        EACH,
        (128, 64, 128),
        2,
    ),
    "no_batch": ("nn", "row", BATCH + TILE, NONE, (64, 128, 64), None),
}


@pytest.mark.parametrize("name", every_third([(name,) for name in KERNELS]))
def test_a_batch_is_right(name, prover, tmp_path):
    layout, order, tables, leading, size, num_sms = KERNELS[name]
    kernel = f'[kernel]\nlayout = "{layout}"\nout_order = "{order}"\n'
    ring = "" if "[pipeline]" in tables else RING
    made = plan(tmp_path, kernel + tables + ring)
    (m, n, k), (a_batch, b_batch) = size, leading
    case = RequestCase(m=m, n=n, k=k, num_sms=num_sms, a_batch=a_batch, b_batch=b_batch)
    request = request_of(made, render(made, verified=False, prove=False))
    verdict = prover.verify(dataclasses.replace(request, cases=(case,)), x64=False)
    assert verdict.passed, verdict.failure


@pytest.fixture(scope="module")
def matmul(tmp_path_factory):
    """A small kernel of batches, interpreted."""
    directory = tmp_path_factory.mktemp("batches")
    made = module(directory, plan(directory, BATCH + TILE + RING))
    return made.function


def integers(*shape):
    rng = np.random.default_rng([*shape])
    return jnp.asarray(rng.integers(-3, 4, shape), jnp.bfloat16)


def rounded(product):
    return jnp.asarray(product, jnp.float32).astype(jnp.bfloat16)


def as_numpy(*arrays):
    return [np.asarray(array, np.float64) for array in arrays]


A, B = (3, 64, 64), (2, 64, 64)


# Maps of a function, shapes of their operands, and what they compute.
MAPS = {
    "both": (jax.vmap, A, A, lambda a, b: a @ b),
    "a": (
        functools.partial(jax.vmap, in_axes=(0, None)),
        A,
        B[1:],
        lambda a, b: a @ b,
    ),
    "last axis of b": (
        functools.partial(jax.vmap, in_axes=(None, 2), out_axes=1),
        A[1:],
        (64, 64, 2),
        lambda a, b: np.moveaxis(a @ np.moveaxis(b, 2, 0), 0, 1),
    ),
    "a, with a batch of b": (
        functools.partial(jax.vmap, in_axes=(0, None)),
        A,
        B,
        lambda a, b: a[:, None] @ b,
    ),
    "nested": (
        lambda f: jax.vmap(jax.vmap(f, in_axes=(None, 0)), in_axes=(0, None)),
        A,
        B,
        lambda a, b: a[:, None] @ b,
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_vmap_is_a_batch(name, matmul):
    mapped, a_shape, b_shape, expected = MAPS[name]
    matmul = functools.partial(matmul, interpret=plgpu.InterpretGPUParams())
    a, b = integers(*a_shape), integers(*b_shape)
    result = jax.jit(mapped(matmul))(a, b)
    assert (result == rounded(expected(*as_numpy(a, b)))).all()


@pytest.mark.parametrize("name", MAPS)
def test_vmap_calls_one_kernel_and_loops_over_nothing(name, matmul):
    mapped, a_shape, b_shape, _ = MAPS[name]
    structs = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in (a_shape, b_shape)
    ]
    lowered = (
        jax.jit(mapped(matmul)).trace(*structs).lower(lowering_platforms=("cuda",))
    )
    text = lowered.as_text()
    assert text.count("@mosaic_gpu") == 1
    assert "stablehlo.while" not in text


def test_an_operand_without_a_batch_is_not_copied(matmul):
    a = jax.ShapeDtypeStruct((8, 5, 64, 64), jnp.bfloat16)
    b = jax.ShapeDtypeStruct((1, 1, 64, 64), jnp.bfloat16)
    lowered = jax.jit(matmul).trace(a, b).lower(lowering_platforms=("cuda",))
    assert "stablehlo.broadcast" not in lowered.as_text()
    assert "tensor<1x64x64xbf16>" in lowered.as_text()


def test_a_batch_is_exported(matmul):
    a, b = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in (A, A))
    checks = jax.export.DisabledSafetyCheck
    allowed = [checks.custom_call(name) for name in ("mosaic_gpu", "mosaic_gpu_v2")]
    exported = jax.export.export(
        jax.jit(jax.vmap(matmul)), platforms=("cuda",), disabled_checks=allowed
    )(a, b)
    assert [aval.shape for aval in exported.out_avals] == [A]
    assert jax.eval_shape(jax.vmap(matmul), a, b).shape == A


@pytest.mark.parametrize("shape", [(0, 64, 64), (3, 0, 64, 64)])
def test_no_matrices_at_all(shape, matmul):
    b = jnp.zeros((64, 128), jnp.bfloat16)
    assert matmul(jnp.zeros(shape, jnp.bfloat16), b).shape == (*shape[:-1], 128)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (
            (2, 64, 64),
            (3, 64, 64),
            r"the leading dimensions of a and b must broadcast, got \(2,\) and \(3,\)",
        ),
        ((64,), (64, 64), r"a must have 2 dimensions or more, got shape \(64,\)"),
        ((65_536, 64, 64), (64, 64), "at most 65535 matrices, got 65536"),
        ((2, 64, 64), (2, 128, 64), "a and b must agree in k, got 64 and 128"),
    ],
)
def test_batches_that_are_none(a, b, message, matmul):
    a, b = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in (a, b))
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(matmul, a, b)
