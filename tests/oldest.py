"""Whether the tests run with the oldest JAX that kgen supports.

What takes long and is proven with a newer JAX is left out there, with its reason.
"""

import importlib.metadata

from kgen.verify.simulate.gaps import FIRST

IS_OLDEST_JAX = importlib.metadata.version("jax") == FIRST
