"""Inputs and references of every operation."""

import numpy as np
import pytest
from verify_requests import request

from kgen.verify.floats import FORMATS
from kgen.verify.reference import INTEGERS, NORMAL, OPERATIONS

MATMUL = OPERATIONS["matmul"]


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_product_in_any_layout(layout, order):
    asked = request(layout=layout, out_order=order, sizes=((8, 16, 24),))
    found = MATMUL.draw(asked, asked.cases[0], NORMAL)
    a, b = found.inputs
    assert a.shape == ((24, 8) if layout[0] == "t" else (8, 24))
    assert b.shape == ((16, 24) if layout[1] == "t" else (24, 16))
    product = np.einsum(
        f"{'ki' if layout[0] == 't' else 'ik'},{'jk' if layout[1] == 't' else 'kj'}"
        f"->{'ji' if order == 'column' else 'ij'}",
        a,
        b,
    )
    np.testing.assert_allclose(found.expected, product, rtol=1e-12, atol=1e-12)
    assert found.expected.shape == ((16, 8) if order == "column" else (8, 16))
    assert found.reduction == 24
    assert (found.magnitude >= np.abs(found.expected)).all()


def test_draws_do_not_change_and_differ_between_sizes():
    asked = request(sizes=((8, 8, 8), (8, 8, 16)))
    first, other = (MATMUL.draw(asked, case, INTEGERS) for case in asked.cases)
    again = MATMUL.draw(asked, asked.cases[0], INTEGERS)
    np.testing.assert_array_equal(first.inputs, again.inputs)
    assert (first.inputs[0] != other.inputs[0][:, :8]).any()


def test_integers_are_small_and_all_of_them_occur():
    asked = request()
    a, _ = MATMUL.draw(asked, asked.cases[0], INTEGERS).inputs
    assert set(np.unique(a)) == {-3, -2, -1, 0, 1, 2, 3}


@pytest.mark.parametrize("dtype", FORMATS)
def test_normal_values_fit_the_operands(dtype):
    asked = request(operand_dtype=dtype)
    a, _ = MATMUL.draw(asked, asked.cases[0], NORMAL).inputs
    np.testing.assert_array_equal(FORMATS[dtype].round(a), a)
    assert 0.9 < a.std() < 1.1


def test_suspects_are_results_of_faults():
    asked = request(sizes=((8, 8, 24),))
    found = MATMUL.draw(asked, asked.cases[0], INTEGERS)
    a, b = found.inputs
    suspects = dict(found.suspects())
    np.testing.assert_array_equal(suspects["the transposed product"], (a @ b).T)
    last = suspects["the product without the last 16 of k"]
    np.testing.assert_array_equal(last, a[:, :8] @ b[:8])
    first = suspects["the product without the first 8 of k"]
    np.testing.assert_array_equal(first, a[:, 8:] @ b[8:])
    assert len(suspects) == 5
