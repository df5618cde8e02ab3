"""Gradients of products with epilogues: all levels that need no GPU, and callers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu
from made import module, plan
from oldest import every_third

from kgen.emit.render import render
from kgen.pipeline import request_of
from kgen.targets import find_targets
from kgen.targets.asked import Asked
from kgen.verify.request import RequestCase

HEAD = '[kernel]\nautodiff = true\nlayout = "{}"\n'
RING = "[pipeline]\nmax_concurrent_steps = 2\n"
TILE = "[tile]\nm = 64\nn = 64\n" + RING
TWO_WGS = "[schedule]\nwarp_specialized = true\n"


def chain(*steps):
    return "".join(f"[[epilogue]]\nop = {step}\n" for step in steps)


CASES = {
    "pipelined": (
        "nt",
        TILE
        + chain(
            '"scale"',
            '"scale_rows"',
            '"scale_columns"',
            '"bias"',
            '"bias"\nalong = "m"\nargument = "row_bias"\ndtype = "float32"',
            '"relu"',
        ),
    ),
    "split_n": (
        "tn",
        "[tile]\nm = 64\nn = 128\n"
        + RING
        + TWO_WGS
        + 'split = "n"\n'
        + chain('"residual"\nbeta = 0.5', '"clamp"\nmin = -40\nmax = 60', '"silu"'),
    ),
    "ping_pong": (
        "nn",
        TILE
        + TWO_WGS
        + "persistent = true\nping_pong = true\n"
        + chain('"cast"\ndtype = "float16"', '"bias"', '"relu"'),
    ),
    "float32_out": (
        "tt",
        '[dtypes]\nout = "float32"\n'
        + TILE
        + chain('"softcap"\ncap = 3.0', '"tanh"', '"sigmoid"'),
    ),
}
INTERPRET = plgpu.InterpretGPUParams()


@pytest.mark.parametrize(
    ("layout", "tables"), every_third(CASES.values()), ids=list(CASES)
)
def test_gradients_are_right(tmp_path, prover, layout, tables):
    made = plan(tmp_path, HEAD.format(layout) + tables)
    request = request_of(made, render(made, verified=False, prove=False))
    m, n, k = made.units_to_differentiate
    num_sms = made.cluster if made.persistent else None
    few = RequestCase(m=m, n=2 * n, k=k, num_sms=num_sms, differentiate=True)
    verdict = prover.verify(dataclasses.replace(request, cases=(few,)))
    assert verdict.passed, str(verdict.failure)


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """The plan and the function of alpha * A @ B + bias, and the gelu of it."""
    directory = tmp_path_factory.mktemp("layer")
    steps = chain('"scale"', '"bias"', '"gelu"')
    made = module(directory, plan(directory, HEAD.format("nn") + TILE + steps))
    return made.plan, made.function


def test_grad_is_close_to_that_of_plain_jax(layer):
    _, matmul = layer
    rng = np.random.default_rng(0)
    a, b, bias, weight = (
        jnp.asarray(rng.standard_normal(shape), jnp.bfloat16)
        for shape in ((64, 64), (64, 64), (64,), (64, 64))
    )

    def loss(a, b, alpha, bias):
        out = matmul(a, b, alpha, bias, interpret=INTERPRET)
        return (out.astype(jnp.float32) * weight).sum()

    def plain(a, b, alpha, bias):
        product = jnp.dot(a, b, preferred_element_type=jnp.float32)
        return (jax.nn.gelu(alpha * product + bias) * weight).sum()

    operands = (a, b, 0.125, bias)
    found, wanted = (
        jax.jit(jax.grad(function, argnums=(0, 1, 2, 3)))(*operands)
        for function in (loss, plain)
    )
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in wanted]
    for pair in zip(found, wanted, strict=True):
        each, other = (np.asarray(x, np.float64) for x in pair)
        typical = np.sqrt(np.mean(np.square(other)))
        np.testing.assert_allclose(each, other, 2**-6, 2**-6 * typical)


def test_outside_of_differentiation_the_product_is_not_stored(layer):
    _, matmul = layer
    a = jax.ShapeDtypeStruct((64, 64), jnp.bfloat16)
    bias = jax.ShapeDtypeStruct((64,), jnp.bfloat16)
    (kernel,) = kernels(jax.make_jaxpr(matmul)(a, a, 1.0, bias).jaxpr)
    assert len(kernel.outvars) == 1
    gradients = jax.make_jaxpr(lambda *each: jax.vjp(matmul, *each)[0])
    (kernel,) = kernels(gradients(a, a, 1.0, bias).jaxpr)
    assert len(kernel.outvars) == 2


def kernels(jaxpr):
    """Returns the calls of kernels within a jaxpr."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("mpmd_map", "core_map", "pallas_call"):
            found.append(equation)
            continue
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            found += kernels(inner) if hasattr(inner, "eqns") else []
    return found


def test_a_module_that_stands_alone_is_verified_with_its_gradients(tmp_path, layer):
    made, _ = layer
    path = tmp_path / f"{made.name}.py"
    path.write_text(render(made, verified=False, prove=False).source, "utf-8")
    (target,) = find_targets([str(path)], Asked(shapes=("64,64,64",)), lambda _: None)
    assert [case.differentiate for case in target.request.cases] == [True]
    assert target.request.steps == made.epilogue
