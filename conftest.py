"""What kgen's own tests and those of the generated modules share."""

import functools
import gc
import os
from pathlib import Path

# Before numpy is imported: products are small, and threads that wait for one are busy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import pytest
from oldest import marks_of

from kgen.verify.simulate import callbacks
from kgen.verify.simulate.patches import Patches

GENERATED = Path(__file__).parent / "generated" / "tests"


def pytest_collection_modifyitems(items):
    """Splits the tests of all generated modules between the ends of JAX's versions."""
    files = sorted(GENERATED.glob("test_*.py"))
    if not {item.path for item in items}.issuperset(files):
        return  # Somebody wants those of a few.
    marks = {path: marks_of(index) for index, path in enumerate(files)}
    for item in items:
        for mark in marks.get(item.path, ()):
            item.add_marker(mark)


def pytest_collection_finish():
    """What the tests are made of is never garbage: it is not looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _callbacks_without_detours():
    """Lets JAX's own interpreter call back as the simulator does, without detours.

    What is computed is the same. test_standalone.py runs tests of modules without.
    """
    patches = Patches()
    with patches.applied(functools.partial(callbacks.install, patches)):
        yield


@pytest.fixture(scope="session", autouse=True)
def _compiled_fast():
    """What a test compiles runs once: XLA compiles fast, as for `kgen verify`."""
    jax.config.update("jax_disable_most_optimizations", True)
