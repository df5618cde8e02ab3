"""What of a mutant's text its outcomes belong to."""

import pytest
from mutants.model import code_of_kernel
from oldest import newest_only

pytestmark = newest_only

MODULE = '''"""A kernel."""

import jax


def matmul(a, b):
    """Returns A @ B."""
    _check_operands(a, b)
    return kernel(*_forward_only(a, b))


@jax.custom_jvp
def _forward_only(*operands):
    return operands


@_forward_only.defjvp
def _(primals, tangents):
    raise TypeError("no gradient rule")


def _check_operands(a, b):
    if a.ndim != 2:
        raise ValueError(a.shape)
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Returns A @ B", "Returns the product"),
        ("a.ndim != 2", "b.ndim != 2"),
        ("no gradient rule", "no derivative"),
        ("kernel(*_forward_only(a, b))", "kernel(a, b)"),
        ("import jax", "import jax  # The compiler."),
    ],
)
def test_words_and_refusals_do_not_count(old, new):
    assert old in MODULE
    assert code_of_kernel(MODULE.replace(old, new)) == code_of_kernel(MODULE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kernel(*_forward_only(a, b))", "kernel(*_forward_only(b, a))"),
        ("kernel(*_forward_only(a, b))", "kernel(a)"),
        ("    _check_operands(a, b)\n    return", "    return"),
    ],
)
def test_what_runs_counts(old, new):
    assert old in MODULE
    assert code_of_kernel(MODULE.replace(old, new)) != code_of_kernel(MODULE)
