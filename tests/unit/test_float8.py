"""8-bit floats: what their products are tested with, and how close they must be."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made import module, plan

from kgen import float8
from kgen.measure import correct, example, operands, peers, scales
from kgen.measure.problem import Problem
from kgen.tune.meter import worst_error
from kgen.verify import compare
from kgen.verify.explain import LevelError
from kgen.verify.reference import INTEGERS, NORMAL, OPERATIONS
from kgen.verify.request import Request, RequestCase

E4M3, E5M2 = float8.FLOAT8
MIXED = Problem(
    shape=(64, 32, 256),
    operand_dtype=E4M3,
    b_dtype=E5M2,
    out_dtype="bfloat16",
    layout="nt",
)


def added_by_tensor_cores(products):
    """Adds products [..., k] as Hopper's tensor cores add those of 8-bit floats.

    32 of them and the sum so far are shifted to the largest exponent, and cut off 13
    bits below it.
    """
    total = np.zeros(products.shape[:-1])
    for block in np.split(products, products.shape[-1] // float8.WGMMA_K, axis=-1):
        terms = np.concatenate([total[..., None], block], axis=-1)
        exponents = np.frexp(np.abs(terms).max(-1))[1] - 1
        unit = np.ldexp(1.0, exponents - float8.SUM_BITS)[..., None]
        total = (np.trunc(terms / unit) * unit).sum(-1)
    return total


def drawn(k, kind, m=8):
    request = Request(
        name="a",
        source="",
        function="f",
        op="matmul",
        arch="sm_90a",
        cases=(),
        layout="nt",
        operand_dtype=E4M3,
        b_dtype=E5M2,
        out_dtype="float32",
    )
    case = RequestCase(m=m, n=m, k=k)
    reference = OPERATIONS["matmul"].draw(request, case, kind)
    a, b = reference.inputs
    return reference, a[:, None, :] * b[None, :, :]


@pytest.mark.parametrize("k", [128, 4096, 16_384, 131_072])
def test_integers_are_exact_where_tensor_cores_add_them(k):
    reference, products = drawn(k, INTEGERS)
    assert np.array_equal(added_by_tensor_cores(products), reference.expected)
    assert reference.magnitude.max() <= float8.EXACT_SUM
    assert len(np.unique(reference.expected)) > 8
    assert (
        compare.exact(
            reference.expected,
            reference.expected,
            reference.magnitude,
            out_dtype="float32",
            operand_dtype=E4M3,
        )
        is None
    )


def test_larger_integers_are_no_exact_test():
    products = np.full((1, 1, 4096), 9.0)
    assert added_by_tensor_cores(products + (np.arange(4096) % 2)) != 4096 * 9.5
    with pytest.raises(compare.BadReferenceError, match="up to 36864 are not exact"):
        compare.exact(
            products.sum(-1),
            products.sum(-1),
            products.sum(-1),
            out_dtype="float32",
            operand_dtype=E4M3,
        )


def allowed(reference, k, **options):
    return compare.tolerance(
        reference.expected,
        reference.magnitude,
        reduction=k,
        operand_dtype=E4M3,
        out_dtype="float32",
        **options,
    )


@pytest.mark.parametrize("k", [128, 4096, 16_384])
def test_normal_values_may_be_off_by_what_tensor_cores_cut_off(k):
    reference, products = drawn(k, NORMAL)
    error = np.abs(added_by_tensor_cores(products) - reference.expected)
    assert (error <= allowed(reference, k, on_gpu=True)).all()
    # On a CPU nothing is cut off, and nothing is forgiven for it.
    assert (error > allowed(reference, k)).any()
    # A step left out is told all the same.
    dropped = np.abs(products[..., -k // 8 :].sum(-1))
    assert (dropped > allowed(reference, k, on_gpu=True)).any()


@pytest.mark.parametrize("every", [128, 256])
def test_a_promoted_sum_of_16384_products_is_closer(every):
    reference, products = drawn(k := 16_384, NORMAL, m=16)
    parts = np.split(products, k // every, axis=-1)
    promoted = sum(added_by_tensor_cores(part) for part in parts)
    error = np.abs(promoted - reference.expected)
    bound = allowed(reference, k, on_gpu=True, promoted=every)
    assert (error <= bound).all()
    plain = np.abs(added_by_tensor_cores(products) - reference.expected)
    assert np.sqrt(np.mean(plain**2)) > 10 * np.sqrt(np.mean(error**2))
    # A sum that should be promoted and is not is told.
    assert (plain > bound).any()


def test_operands_to_measure_with_are_of_both_formats():
    (a, b), *_ = operands.draw(MIXED, l2_bytes=1)
    assert (a.dtype, b.dtype) == (jnp.float8_e4m3fn, jnp.float8_e5m2)
    assert [each.dtype for each in correct.structs(MIXED)] == [a.dtype, b.dtype]
    a, b = correct.integers(MIXED)
    values = np.asarray(a, np.float32)
    assert {*np.unique(values)} == {-1, 0, 1}
    assert abs(values.mean()) < 0.05
    product = jnp.dot(a, b.T, preferred_element_type=jnp.bfloat16)
    assert correct.differs_from_xla(product, (a, b), MIXED) is None
    text = correct.differs_from_xla(product.at[0, 0].add(1), (a, b), MIXED)
    assert text.startswith("1 of 2048 elements are wrong, the first at [0, 0]")


def test_a_long_sum_has_fewer_ones():
    deep = dataclasses.replace(MIXED, shape=(8, 8, 65_536))
    a, _ = correct.integers(deep)
    assert abs(np.mean(np.asarray(a, np.float32) != 0) - 0.25) < 0.01


def test_peers_of_8_bit_floats():
    sets = operands.draw(MIXED, l2_bytes=1)
    (product,) = peers.compile_xla(MIXED, sets).run(sets)
    assert product.dtype == jnp.bfloat16
    with pytest.raises(peers.NoPeerError, match=r"torch\.matmul takes no 8-bit floats"):
        peers.compile_torch(MIXED, sets)
    with pytest.raises(peers.NoPeerError, match="JAX's example takes"):
        example.examples(dataclasses.replace(MIXED, layout="nn"))


def test_a_search_allows_for_what_tensor_cores_cut_off():
    a, b = operands.draw(MIXED, l2_bytes=1)[0]
    expected = jnp.dot(a, b.T, preferred_element_type=jnp.float32)
    products = np.asarray(a, np.float64)[:, None] * np.asarray(b, np.float64)
    cut = jnp.asarray(added_by_tensor_cores(products), jnp.bfloat16)
    assert worst_error(cut, expected, MIXED) < 1
    half = jnp.dot(a[:, :128], b[:, :128].T, preferred_element_type=jnp.bfloat16)
    assert worst_error(half, expected, MIXED) > 1
    assert jax.numpy.isfinite(worst_error(half, expected, MIXED))


def test_a_block_scaled_product_is_measured_beside_the_unscaled_one(tmp_path):
    made = plan(
        tmp_path,
        '[kernel]\nlayout = "nt"\n'
        f'[dtypes]\na = "{E4M3}"\nb = "{E5M2}"\n'
        "[tile]\nm = 64\n[scales]\nblock = 128\n"
        "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\n",
    )
    built = module(tmp_path, made)
    problem = dataclasses.replace(MIXED, shape=(64, 128, 256))
    reference = built.function.__wrapped__.__globals__["reference"]
    proven = scales.check(reference, reference, problem, built.request, runs=2)
    assert proven[0] == "small integers as the reference in XLA, bit for bit"

    def late(a, b, a_scale, b_scale):
        return reference(a, b, a_scale[:, ::-1], b_scale)

    with pytest.raises(LevelError, match="elements differ from the module's reference"):
        scales.check(late, reference, problem, built.request, runs=2)
    (a, b, a_scale, b_scale), *_ = scales.extend(
        operands.draw(problem, l2_bytes=1), problem, built.request
    )
    assert (a_scale.shape, b_scale.shape) == ((64, 2), (1, 2))
    product = scales.unscaled(problem)(a, b, a_scale, b_scale)
    assert np.array_equal(product, peers.xla(problem)(a, b))
