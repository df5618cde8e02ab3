"""Scales of blocks of A and B, as an operation with them is verified."""

import numpy as np

from kgen.verify.floats import FORMATS, Array
from kgen.verify.request import Request, RequestCase

POWERS = (1.0, 2.0, 4.0)
"""Scales of integers: their sums stay integers."""
NARROWEST, WIDEST = 0.25, 4.0


def shapes(request: Request, case: RequestCase) -> tuple[tuple[int, int], ...]:
    """Returns the shapes of A's and B's scales; none if there are none."""
    block = request.scale_block
    if not block:
        return ()
    return (case.m, case.k // block), (case.n // block, case.k // block)


def draw(
    request: Request, case: RequestCase, rng: np.random.Generator, *, integers: bool
) -> tuple[Array, ...]:
    """Draws scales that float32 holds exactly: powers of two, or any within bounds."""
    if integers:
        return tuple(rng.choice(POWERS, shape) for shape in shapes(request, case))
    return tuple(
        FORMATS["float32"].round(rng.uniform(NARROWEST, WIDEST, shape))
        for shape in shapes(request, case)
    )


def apply(
    request: Request, a: Array, b: Array, scales: tuple[Array, ...]
) -> tuple[Array, Array]:
    """Returns A [m, k] and B [n, k] multiplied with their scales."""
    if not scales:
        return a, b
    block = request.scale_block
    a_scale, b_scale = scales
    of_a = np.repeat(a_scale, block, axis=1)
    of_b = np.repeat(np.repeat(b_scale, block, axis=0), block, axis=1)
    return a * of_a, b * of_b
