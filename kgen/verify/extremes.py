"""Sizes at which a function is traced alone: where something begins to be different.

They cost a few milliseconds each, since no kernel is compiled or run.
"""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kgen.arch import ARCHS
from kgen.verify.refusals import NUM_SMS
from kgen.verify.request import GLU, MATMUL, Request, RequestCase

ATOM_ROWS = 8
"""Rows of what a swizzle permutes."""
CLUSTERS = (1, 2)
"""CTAs along one dimension of a cluster."""
NOTHING = ((0, 5, 7), (3, 0, 7), (3, 5, 0))
"""Sizes of which no kernel is needed."""


def around_atoms(request: Request) -> tuple[RequestCase, ...]:
    """Returns sizes of one row and one column more than a swizzle atom.

    Beyond an atom TMA clips whole atoms alone: there a module begins to pad. Atoms are
    8 rows of 128, 64 or 32 bytes. Only a function that takes every size has such.
    """
    if request.op not in (MATMUL, GLU) or not request.any_edge:
        return ()
    swizzles = ARCHS[request.arch].swizzles if request.arch in ARCHS else ()
    dtypes = {*request.operand_dtypes, request.out_dtype} - {""}
    # JAX has registered the narrower formats with numpy.
    widths = sorted(
        {s // np.dtype(d).itemsize for s, d in itertools.product(swizzles, dtypes)}
    )
    sizes = [(width + 1, width + 1) for width in widths[1:]]
    for width in widths[:1]:  # The rows of an atom are the same in all.
        sizes += [(ATOM_ROWS + 1, width + 1), (width + 1, ATOM_ROWS + 1)]
    return tuple(RequestCase(m=m, n=n, k=n) for m, n in sizes)


def longest(function: Callable[..., Any], request: Request) -> Iterator[RequestCase]:
    """Yields sizes that may need more CTAs along a dimension than CUDA launches.

    A function may refuse them, or spread them out otherwise. One that is told of the SMs
    has as many CTAs at the most.
    """
    is_persistent = NUM_SMS in inspect.signature(function).parameters
    if not request.blocks or request.arch not in ARCHS or is_persistent:
        return
    most = ARCHS[request.arch].max_grid_yz
    m, n, k = request.blocks
    for cluster in CLUSTERS:
        yield RequestCase(m=(most + 1) // cluster * m, n=n, k=k)
    if request.batched:
        yield RequestCase(m=m, n=n, k=k, a_batch=(most + 1,), b_batch=(most + 1,))


def empty(request: Request) -> Iterator[RequestCase]:
    """Yields sizes without a result, or without anything to add up."""
    if not request.any_edge:
        return
    for m, n, k in NOTHING:
        yield RequestCase(m=m, n=n, k=k)
        if request.grad_units == (1, 1, 1):
            yield RequestCase(m=m, n=n, k=k, differentiate=True)
    if request.batched:
        yield RequestCase(m=3, n=5, k=7, a_batch=(0,), b_batch=(0,))
