"""Gradients with every schedule: all levels that need no GPU, and what a caller sees."""

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
from kgen.verify.request import LOWER, SIMULATE, RequestCase

HEAD = '[kernel]\nautodiff = true\nlayout = "{}"\n'
RING = "[pipeline]\nmax_concurrent_steps = 2\n"
TILE = "[tile]\nm = 64\nn = 64\n" + RING
TWO_WGS = "[schedule]\nwarp_specialized = true\n"
ONE_WG = TWO_WGS + "num_compute_wgs = 1\n"
PERSISTENT = ONE_WG + "persistent = true\n"
CASES = {
    "pipelined": ("nt", TILE),
    "pallas_call": ("tn", 'entry_point = "pallas_call"\n' + TILE),
    "split_m": ("tt", "[tile]\nm = 128\nn = 64\n" + RING + TWO_WGS),
    "split_n": ("nn", "[tile]\nm = 64\nn = 128\n" + RING + TWO_WGS + 'split = "n"\n'),
    "persistent": ("tn", TILE + PERSISTENT),
    "ping_pong": ("nt", TILE + TWO_WGS + "persistent = true\nping_pong = true\n"),
    "cluster_m": ("nn", TILE + PERSISTENT + "[cluster]\nm = 2\n"),
    "cluster_n": ("tt", TILE + ONE_WG + "[cluster]\nn = 2\n[raster]\nwidth = 2\n"),
    "split_k": ("tn", TILE + ONE_WG + "split_k = 2\n"),
    "any_edge": ("tt", '[shapes]\nedge = "any"\n' + TILE + PERSISTENT),
    "float32_out": ("nn", '[dtypes]\nout = "float32"\n' + TILE),
}
INTERPRET = plgpu.InterpretGPUParams()


@pytest.mark.parametrize(
    ("layout", "tables"), every_third(CASES.values()), ids=list(CASES)
)
def test_gradients_are_exact(tmp_path, prover, layout, tables):
    made = plan(tmp_path, HEAD.format(layout) + tables)
    request = request_of(made, render(made, verified=False, prove=False))
    m, n, k = (67, 69, 61) if made.any_edge else made.units_to_differentiate
    num_sms = made.cluster if made.persistent else None
    few = RequestCase(m=m, n=2 * n, k=k, num_sms=num_sms, differentiate=True)
    verdict = prover.verify(dataclasses.replace(request, cases=(few,)), x64=False)
    assert verdict.passed, str(verdict.failure)


@pytest.mark.parametrize("name", ["pipelined", "persistent"])
def test_smem_is_as_planned_where_the_rings_go_around(tmp_path, prover, name):
    layout, tables = CASES[name]
    made = plan(tmp_path, HEAD.format(layout) + tables, name)
    request = request_of(made, render(made, verified=False, prove=False))
    _, around = (case for case in request.cases if case.differentiate)
    assert prover.verify(
        dataclasses.replace(request, cases=(around,)), x64=False
    ).passed
    short = dataclasses.replace(around, grad_b_smem_bytes=around.grad_b_smem_bytes - 8)
    failure = prover.verify(
        dataclasses.replace(request, cases=(short,)), x64=False
    ).failure
    assert failure.level == LOWER
    assert "the lowered kernels ask for" in failure.detail


@pytest.fixture(scope="module")
def matmul(tmp_path_factory):
    """A function of rows of 64, columns and depths of 128."""
    directory = tmp_path_factory.mktemp("gradients")
    text = HEAD.format("nn") + "[tile]\nm = 64\nn = 128\n" + RING
    return module(directory, plan(directory, text)).function


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(0)
    a, b, weight = (
        rng.integers(-3, 4, shape) for shape in ((64, 128), (128, 128), (64, 128))
    )
    bfloat16 = jnp.bfloat16.dtype
    return a.astype(bfloat16), b.astype(bfloat16), weight.astype(bfloat16)


@pytest.fixture(scope="module")
def wanted(operands):
    """The gradients of the sum of the product times a weight."""
    a, b, weight = (each.astype(np.float64) for each in operands)
    return weight @ b.T, a.T @ weight


def loss_of(matmul, weight):
    def loss(a, b):
        product = matmul(a, b, interpret=INTERPRET).astype(jnp.float32)
        return (product * weight.astype(np.float32)).sum()

    return loss


def equal(found, wanted):
    rounded = [jnp.asarray(each, jnp.float32).astype(jnp.bfloat16) for each in wanted]
    assert [each.dtype for each in found] == [jnp.bfloat16] * 2
    return all(map(np.array_equal, found, rounded))


def test_grad_under_jit_and_with_numpy_operands(matmul, operands, wanted):
    a, b, weight = operands
    loss = loss_of(matmul, weight)
    assert equal(jax.jit(jax.grad(loss, argnums=(0, 1)))(a, b), wanted)


def test_value_and_grad(matmul, operands, wanted):
    a, b, weight = operands
    value, found = jax.value_and_grad(loss_of(matmul, weight), argnums=(0, 1))(a, b)
    assert equal(found, wanted)
    product = operands[0].astype(np.float64) @ b.astype(np.float64)
    rounded = np.asarray(jnp.asarray(product, jnp.bfloat16), np.float64)
    assert float(value) == (rounded * weight.astype(np.float64)).sum()


def test_a_mapped_function_is_differentiated(matmul, operands, wanted):
    a, b, weight = operands
    loss = loss_of(matmul, weight)

    def total(a, b):
        return jax.vmap(loss, in_axes=(0, None))(a, b).sum()

    twice = np.stack([a, a])
    of_a, of_b = jax.grad(total, argnums=(0, 1))(twice, b)
    assert equal((of_a[1], of_b), (wanted[0], 2 * wanted[1]))


def test_a_gradient_has_the_dtype_and_shape_of_its_operand(matmul, operands):
    a, b, weight = operands
    found = jax.eval_shape(jax.grad(loss_of(matmul, weight), argnums=(0, 1)), a, b)
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in (a, b)]


def test_sizes_that_only_the_product_can_do(matmul):
    a, b = jnp.zeros((64, 64), jnp.bfloat16), jnp.zeros((64, 128), jnp.bfloat16)
    assert jax.eval_shape(matmul, a, b).shape == (64, 128)
    with pytest.raises(
        ValueError, match="to differentiate, k must be a multiple of 128, got 64"
    ):
        jax.eval_shape(jax.grad(lambda a, b: matmul(a, b)[0, 0]), a, b)


def test_a_tall_gradient_is_refused(tmp_path):
    text = HEAD.format("nn") + TILE
    tall = module(tmp_path, plan(tmp_path, text)).function
    k = 64 * 65_536
    a, b = (jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in ((64, k), (k, 64)))
    assert jax.eval_shape(tall, a, b).shape == (64, 64)
    with pytest.raises(
        ValueError, match=r"to differentiate, k must be at most 4194240"
    ):
        jax.eval_shape(jax.grad(lambda a, b: tall(a, b)[0, 0]), a, b)


def test_a_module_that_stands_alone_is_verified_with_its_gradients(tmp_path):
    made = plan(tmp_path, HEAD.format("tn") + TILE + PERSISTENT)
    path = tmp_path / f"{made.name}.py"
    path.write_text(render(made, verified=False, prove=False).source, "utf-8")
    (target,) = find_targets([str(path)], Asked(), lambda _: None)
    sizes = {(c.m, c.n, c.k, c.num_sms) for c in made.cases if c.differentiate}
    cases = [case for case in target.request.cases if case.differentiate]
    assert {(c.m, c.n, c.k, c.num_sms) for c in cases} == sizes
    (target,) = find_targets([str(path)], Asked(shapes=("64,64,64",)), lambda _: None)
    assert [case.differentiate for case in target.request.cases] == [True]


SWAPPED = ("    return grad_a, grad_b\n", "    return grad_b, grad_a\n")
OF_OTHER = ("_product(cotangent, b,", "_product(cotangent, a,")
UNTURNED = ('_product(a, cotangent, "tn"', '_product(a, cotangent, "nn"')


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (SWAPPED, "the gradient of A: "),
        (OF_OTHER, "the gradient of A: "),
        (UNTURNED, "the gradient of B: "),
    ],
)
def test_faults_are_found(tmp_path, prover, edit, message):
    made = plan(tmp_path, HEAD.format("nn") + TILE, "faulty")
    rendered = render(made, verified=False, prove=False)
    request = request_of(made, rendered)
    assert edit[0] in rendered.source
    # A square of one tile, so that no shape tells.
    case = RequestCase(m=64, n=64, k=64, differentiate=True)
    wrong = dataclasses.replace(
        request, source=rendered.source.replace(*edit), cases=(case,)
    )
    failure = prover.verify(wrong, x64=False).failure
    assert failure is not None
    assert failure.level == SIMULATE
    assert message in failure.detail
