"""What a comparison finds, and how it tells it."""

import numpy as np
import pytest

from kgen.verify import compare
from kgen.verify.compare import BadReferenceError
from kgen.verify.floats import FORMATS

SHAPE = (128, 192)


@pytest.fixture
def expected():
    """A product of small integers, all elements different from their neighbours."""
    return np.arange(128 * 192, dtype=np.float64).reshape(SHAPE) % 2039 + 1


def exact(result, expected, **options):
    options = {"out_dtype": "float16", **options}
    return compare.exact(result, expected, np.abs(expected), **options)


def test_equal_results_pass(expected):
    assert exact(expected.copy(), expected) is None


def test_zeros_of_either_sign_are_equal():
    assert exact(-np.zeros((2, 2)), np.zeros((2, 2))) is None


def test_the_reference_is_rounded_to_the_result():
    assert exact(np.full((1, 1), 2048.0), np.full((1, 1), 2049.0)) is None


def test_one_wrong_element_is_told(expected):
    result = expected.copy()
    result[3, 7] += 100
    assert exact(result, expected) == (
        "1 of 24576 elements are wrong, the first at [3, 7]: got 684, expected 584;"
        " they are scattered"
    )


def test_an_infinity_is_wrong(expected):
    result = expected.copy()
    result[0, 0] = np.inf
    assert "got inf, expected 1;" in exact(result, expected)


def told(change, expected, **options):
    """Returns what is said about the pattern of a change to the result."""
    result = expected.copy()
    change(result)
    return exact(result, expected, **options).partition("; ")[2]


def assign(place, value):
    def change(result):
        result[place] = value

    return change


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (np.s_[64:], "the last 64 rows (64:128) are wrong"),
        (np.s_[:32], "the first 32 rows (0:32) are wrong"),
        (np.s_[32:64], "the 32 rows (32:64) are wrong"),
        (np.s_[:, 128:], "the last 64 columns (128:192) are wrong"),
        (
            np.s_[64:, 64:128],
            "the whole block [64:128, 64:128] is wrong, and only that",
        ),
        (np.s_[:], "everything is wrong"),
    ],
)
def test_regions_are_told(place, text, expected):
    assert told(assign(place, -1234), expected) == text


def test_several_blocks_are_told(expected):
    def change(result):
        result[:64, 64:128] = result[64:, :64] = -1234

    assert told(change, expected) == (
        "2 of 6 whole blocks of 64x64 are wrong, the first [0:64, 64:128]"
    )


def test_separate_rows_are_told(expected):
    def change(result):
        result[:32] = result[64:96] = -1234

    assert told(change, expected) == "2 of 4 groups of 32 rows are wrong"


def test_a_block_is_whole_though_some_elements_are_right_by_chance(expected):
    def change(result):
        result[64:] = -1234
        result[70, ::3] = expected[70, ::3]

    assert told(change, expected) == "the last 64 rows (64:128) are wrong"


def test_poison_is_memory_that_was_never_written(expected):
    assert told(assign(np.s_[:64, :64], np.nan), expected) == (
        "they are NaN, as memory that was never written: the whole block [0:64, 0:64]"
        " is wrong, and only that"
    )


def test_poison_is_told_among_other_faults(expected):
    def change(result):
        result[:, :] = -1234
        result[:, 128:] = np.nan

    assert told(change, expected) == (
        "8192 are NaN, as memory that was never written: the last 64 columns (128:192)"
        " are wrong"
    )


def test_zeros_are_told(expected):
    assert told(assign(np.s_[64:], 0), expected) == (
        "they are all zero: the last 64 rows (64:128) are wrong"
    )


def test_an_early_cast_is_told(expected):
    def change(result):
        result[...] = FORMATS["float16"].round(result * 3) / 3

    assert told(change, expected, out_dtype="float32").endswith("they are scattered")

    def step(result):
        result[5, 5] += 1

    assert told(step, expected) == (
        "each is off by a rounding or two, as after a cast that comes too early"
    )


def test_a_known_fault_is_named():
    expected = np.arange(64.0).reshape(8, 8)
    text = exact(
        expected.T,
        expected,
        suspects=lambda: [("nonsense", expected + 1), ("transposed", expected.T)],
    )
    assert text.endswith("; the result is transposed")


def test_suspects_are_not_made_when_all_is_well(expected):
    def never():
        raise AssertionError

    assert exact(expected, expected, suspects=never) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reference_that_is_not_finite_is_an_error(bad, expected):
    expected[1, 2] = bad
    with pytest.raises(BadReferenceError, match=rf"the reference is {bad} at \[1, 2\]"):
        compare.exact(expected, expected, np.ones(SHAPE), out_dtype="float16")
    with pytest.raises(BadReferenceError, match=rf"the reference is {bad} at \[1, 2\]"):
        compare.close(expected, expected, np.ones(SHAPE), out_dtype="float16")


def test_a_sum_beyond_the_largest_number_becomes_an_infinity(expected):
    expected[0] = 70_000.0
    expected[1] = -70_000.0
    rounded = FORMATS["float16"].round(expected)
    assert exact(rounded, expected) is None
    close = compare.close(rounded, expected, np.ones(SHAPE), out_dtype="float16")
    assert close is None
    assert "got 65504, expected inf" in exact(np.clip(rounded, -65504, 65504), expected)
    assert "got inf, expected -inf" in exact(np.abs(rounded), expected)
    text = compare.close(-rounded, expected, np.ones(SHAPE), out_dtype="float16")
    assert "got -inf, expected 70000 within 1;" in text


def test_near_the_largest_number_an_infinity_is_close():
    expected = np.array([[65_519.0, 1.0, 1.0]])  # 65520 is where infinity begins.
    infinity = np.array([[np.inf, 1.0, 1.0]])
    for allowed, right in ((2.0, True), (0.5, False)):
        errors = np.full((1, 3), allowed)
        text = compare.close(infinity, expected, errors, out_dtype="float16")
        assert (text is None) == right


def test_a_reference_that_mostly_overflows_is_an_error():
    expected = np.array([[70_000.0, 70_000.0, 1.0]])
    with pytest.raises(
        BadReferenceError, match="2 of 3 elements of the reference over"
    ):
        exact(FORMATS["float16"].round(expected), expected)
    with pytest.raises(
        BadReferenceError, match="2 of 3 elements of the reference over"
    ):
        compare.close(expected, expected, np.ones((1, 3)), out_dtype="float16")


def test_sums_that_float32_cannot_hold_are_an_error():
    ones = np.ones((1, 1))
    assert compare.exact(ones, ones, ones * 2**24, out_dtype="float32") is None
    with pytest.raises(BadReferenceError, match="up to 16777217 are not exact"):
        compare.exact(ones, ones, ones * (2**24 + 1), out_dtype="float32")


def test_a_tolerance_that_is_not_finite_is_an_error(expected):
    allowed = np.full(SHAPE, np.nan)
    with pytest.raises(
        BadReferenceError, match=r"\(allowed error\) is nan at \[0, 0\]"
    ):
        compare.close(expected, expected, allowed, out_dtype="float16")


def test_close_includes_the_edge_and_nothing_beyond(expected):
    allowed = np.full(SHAPE, 0.25)
    assert (
        compare.close(expected + 0.25, expected, allowed, out_dtype="float32") is None
    )
    assert (
        compare.close(expected - 0.25, expected, allowed, out_dtype="float32") is None
    )
    result = expected.copy()
    result[0, 0] = np.nextafter(result[0, 0] + 0.25, np.inf)
    assert compare.close(result, expected, allowed, out_dtype="float32") == (
        "1 of 24576 elements are wrong, the first at [0, 0]: got 1.25, expected 1"
        " within 0.25; they are scattered"
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_result_that_is_not_finite_is_not_close(bad, expected):
    result = expected.copy()
    result[127, 191] = bad
    text = compare.close(result, expected, np.full(SHAPE, 1e9), out_dtype="float32")
    assert text.startswith("1 of 24576 elements are wrong, the first at [127, 191]")


def tolerance(expected=0.0, magnitude=1.0, **options):
    options = {"operand_dtype": "float16", "out_dtype": "float32", **options}
    found = compare.tolerance(
        np.array([[float(expected)]]), np.array([[float(magnitude)]]), **options
    )
    return found[0, 0]


def test_tolerance_grows_with_the_length_and_then_with_its_root():
    assert tolerance(reduction=1) == 2.0**-24
    assert tolerance(reduction=36) == 36 * 2.0**-24
    assert tolerance(reduction=64) == 6 * 8 * 2.0**-24


def test_tolerance_counts_the_rounded_products_of_float32_operands():
    assert tolerance(reduction=63, operand_dtype="float32") == 6 * 8 * 2.0**-24


def test_tolerance_of_tf32_grows_with_the_magnitude():
    options = {"reduction": 63, "operand_dtype": "float32"}
    cut = tolerance(magnitude=10, on_gpu=True, **options) - tolerance(
        magnitude=10, **options
    )
    assert cut == pytest.approx(10 * (2.0**-9 + 2.0**-20))
    # 16-bit operands are not cut.
    assert tolerance(reduction=1, on_gpu=True) == 2.0**-24


@pytest.mark.parametrize(
    ("out_dtype", "roundoff"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)]
)
def test_tolerance_has_one_rounding_of_the_result(out_dtype, roundoff):
    found = tolerance(expected=-8, magnitude=0, reduction=64, out_dtype=out_dtype)
    assert found == pytest.approx(8 * roundoff, abs=2.0**-24)
    assert found >= 8 * roundoff


def normal_operands(k, dtype):
    rng = np.random.default_rng(k)
    shapes = (64, k), (k, 64)
    return (FORMATS[dtype].round(rng.standard_normal(shape)) for shape in shapes)


def outer_product(a, b, i):
    return a[:, i, None].astype(np.float32) * b[i].astype(np.float32)


@pytest.mark.parametrize("k", [1, 64, 2048])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_float32_accumulation_in_any_order_is_within_tolerance(k, dtype):
    a, b = normal_operands(k, dtype)
    allowed = compare.tolerance(
        a @ b, abs(a) @ abs(b), reduction=k, operand_dtype=dtype, out_dtype="float32"
    )
    forward = np.zeros((64, 64), np.float32)
    backward = np.zeros((64, 64), np.float32)
    for step in range(k):
        forward += outer_product(a, b, step)
        backward += outer_product(a, b, k - 1 - step)
    for acc in (forward, backward):
        result = acc.astype(np.float64)
        assert compare.close(result, a @ b, allowed, out_dtype="float32") is None


def test_float16_accumulation_is_not_within_tolerance():
    a, b = normal_operands(512, "float16")
    allowed = compare.tolerance(
        a @ b,
        abs(a) @ abs(b),
        reduction=512,
        operand_dtype="float16",
        out_dtype="float16",
    )
    acc = np.zeros((64, 64), np.float16)
    for i in range(0, 512, 64):
        acc += (a[:, i : i + 64] @ b[i : i + 64]).astype(np.float16)
    assert compare.close(acc.astype(np.float64), a @ b, allowed, out_dtype="float16")
