"""Whether the tests run with the oldest JAX that kgen supports.

What takes long and is proven with a newer JAX is left out there, with its reason.
"""

import importlib.metadata

import pytest

from kgen.verify.simulate.gaps import FIRST

IS_OLDEST_JAX = importlib.metadata.version("jax") == FIRST

newest_only = pytest.mark.skipif(
    IS_OLDEST_JAX, reason="does not depend on JAX's version: run with a newer one"
)
"""For what uses JAX, but none of what differs between its versions."""

LEFT_OUT = pytest.mark.skipif(
    IS_OLDEST_JAX, reason="with the oldest JAX, every third kernel only"
)
"""For two kernels of three."""

LEFT_TO_OLDEST = pytest.mark.skipif(
    not IS_OLDEST_JAX, reason="every sixth kernel runs with the oldest JAX only"
)
"""For every second of the others: as many run with both."""

IN_ONE = pytest.mark.skip(reason="runs with the oldest JAX, or with a newer one only")


def marks_of(index):
    """Returns the marks of one of many.

    Of six, four are for a newer JAX, one is for the oldest, and the first for both.
    """
    if index % 3:
        return [LEFT_OUT]
    return [LEFT_TO_OLDEST] if index % 6 else []


def every_third(values):
    """Returns tuples as parameters: a third is for the oldest JAX, most for a newer."""
    return [
        pytest.param(*value, marks=marks_of(index))
        for index, value in enumerate(values)
    ]


def in_turns(values):
    """Returns tuples as parameters: a third is for the oldest JAX, the others are not."""
    return [
        pytest.param(*value, marks=[IN_ONE] if bool(index % 3) == IS_OLDEST_JAX else [])
        for index, value in enumerate(values)
    ]
