"""What kgen's own tests and those of the generated modules share."""

import functools

import pytest

from kgen.verify.simulate import callbacks
from kgen.verify.simulate.patches import Patches


@pytest.fixture(scope="session", autouse=True)
def _callbacks_without_detours():
    """Lets JAX's own interpreter call back as the simulator does: three times as fast.

    What is computed is the same. test_standalone.py runs tests of modules without.
    """
    patches = Patches()
    with patches.applied(functools.partial(callbacks.install, patches)):
        yield
