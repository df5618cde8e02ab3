"""What proves modules here: one process for all tests of a worker."""

import pytest
from mutants.nursery import Nursery

from kgen.verify.request import LOWER, SIMULATE, STATIC

TIMEOUT = 60.0


@pytest.fixture(scope="session")
def prover():
    """Verifies modules in children of one process that has imported JAX."""
    nursery = Nursery((STATIC, LOWER, SIMULATE), TIMEOUT)
    yield nursery
    nursery.close()
