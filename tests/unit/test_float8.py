"""8-bit floats: what their products are tested with, and how close they must be."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made import module, plan

from kgen import float8
from kgen.measure import correct, example, operands, peers
from kgen.measure.computed import Computed
from kgen.measure.problem import Problem
from kgen.verify import compare, repeats
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
    expected = correct.exact_product((a, b), MIXED)
    assert correct.differs(product, expected, MIXED) is None
    text = correct.differs(product.at[0, 0].add(1), expected, MIXED)
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


def test_what_tensor_cores_cut_off_is_right_and_more_is_not():
    check = correct.ProductCheck(MIXED)
    structs = correct.structs(MIXED)
    struct = jax.ShapeDtypeStruct(MIXED.out_shape, MIXED.out_dtype)

    def cut(a, b, bits=float8.SUM_BITS):
        def add(a, b):
            products = np.asarray(a, np.float64)[:, None] * np.asarray(b, np.float64)
            total = added_by_tensor_cores(products)
            unit = np.ldexp(1.0, np.frexp(total)[1] - bits)
            return (np.trunc(total / unit) * unit).astype(struct.dtype)

        return jax.pure_callback(add, struct, a, b)

    proven = check(repeats.Poisoned(cut, structs), runs=2)
    assert proven[0] == "small integers as XLA's product, bit for bit"
    coarse = repeats.Poisoned(functools.partial(cut, bits=6), structs)
    with pytest.raises(LevelError, match=r"^on normal values: in 32 rows, 0 to 63"):
        check(coarse, runs=2)


def test_a_block_scaled_product_is_measured_beside_the_unscaled_one(tmp_path):
    made = plan(
        tmp_path,
        '[kernel]\nlayout = "nt"\n'
        f'[dtypes]\na = "{E4M3}"\nb = "{E5M2}"\n'
        "[tile]\nm = 64\n[scales]\nblock = 128\n"
        "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\n",
    )
    built = module(tmp_path, made)
    request = dataclasses.replace(
        built.request, cases=(RequestCase(m=64, n=128, k=256),)
    )
    asked = Computed.of(request)
    reference = built.function.__wrapped__.__globals__["reference"]
    check = asked.check(reference)
    proven = check(repeats.Poisoned(reference, asked.structs()), runs=2)
    assert proven[0] == "small integers as the reference in XLA, bit for bit"

    def late(a, b, a_scale, b_scale):
        return reference(a, b, a_scale[:, ::-1], b_scale)

    with pytest.raises(LevelError, match="on small integers: in 32 rows"):
        check(repeats.Poisoned(late, asked.structs()), runs=2)
    sets = asked.draw(1)
    ((a, b, a_scale, b_scale),) = sets
    assert (a_scale.shape, b_scale.shape) == ((64, 2), (1, 2))
    ((name, unscaled),) = asked.xla(sets, reference).items()
    assert name == ""
    assert np.array_equal(unscaled.run(sets)[0], peers.xla(asked.problem)(a, b))


ROWS = '[[epilogue]]\nop = "scale_rows"\n'


@pytest.mark.parametrize(
    ("steps", "is_unscaled"),
    [(ROWS, True), (ROWS + '[[epilogue]]\nop = "relu"\n', False)],
)
def test_scales_alone_are_measured_beside_the_unscaled_product(
    steps, is_unscaled, tmp_path
):
    made = plan(
        tmp_path,
        f'[kernel]\nlayout = "nt"\n[dtypes]\na = "{E4M3}"\nb = "{E4M3}"\n'
        f'out = "float32"\n[tile]\nm = 64\n{steps}',
    )
    built = module(tmp_path, made)
    case = RequestCase(m=64, n=128, k=256)
    asked = Computed.of(dataclasses.replace(built.request, cases=(case,)))
    reference = built.function.__wrapped__.__globals__["reference"]
    sets = asked.draw(1)
    (operands_and_scales,) = sets
    (compiled,) = asked.xla(sets, reference).values()
    (found,) = compiled.run(sets)
    product = peers.xla(asked.problem)(*operands_and_scales[:2])
    scaled = reference(*operands_and_scales)
    assert np.array_equal(found, product if is_unscaled else scaled)
    assert not np.array_equal(product, scaled)
