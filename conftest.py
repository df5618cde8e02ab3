"""What kgen's own tests and those of the generated modules share."""

import functools
from pathlib import Path

import pytest
from oldest import LEFT_OUT

from kgen.verify.simulate import callbacks
from kgen.verify.simulate.patches import Patches

GENERATED = Path(__file__).parent / "generated" / "tests"


def pytest_collection_modifyitems(items):
    """With the oldest JAX, leaves out the tests of two of three generated modules."""
    files = sorted({item.path for item in items if item.path.parent == GENERATED})
    left_out = {path for index, path in enumerate(files) if index % 3}
    for item in items:
        if item.path in left_out:
            item.add_marker(LEFT_OUT)


@pytest.fixture(scope="session", autouse=True)
def _callbacks_without_detours():
    """Lets JAX's own interpreter call back as the simulator does, without detours.

    What is computed is the same. test_standalone.py runs tests of modules without.
    """
    patches = Patches()
    with patches.applied(functools.partial(callbacks.install, patches)):
        yield
