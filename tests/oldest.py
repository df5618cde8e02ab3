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


def every_third(values):
    """Returns tuples as parameters; with the oldest JAX two of three are skipped."""
    return [
        pytest.param(*value, marks=[LEFT_OUT] if index % 3 else [])
        for index, value in enumerate(values)
    ]


def in_turns(values):
    """Returns tuples as parameters: a third is for the oldest JAX, the others are not."""
    skip = pytest.mark.skip(reason="runs with the oldest JAX, or with a newer one only")
    return [
        pytest.param(*value, marks=[skip] if bool(index % 3) == IS_OLDEST_JAX else [])
        for index, value in enumerate(values)
    ]
