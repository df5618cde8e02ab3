"""What each operation computes, in float64, and what it is tested with.

Numpy alone. Inputs are drawn from a generator that is seeded from the sizes, so that a
verdict does not change from run to run.
"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from kgen.verify.floats import FORMATS, Array
from kgen.verify.request import Request, RequestCase

INTEGERS, NORMAL = "small integers", "normal values"
KINDS = (INTEGERS, NORMAL)
LARGEST_INTEGER = 3
DROPPED_STEPS = (8, 16, 32, 64, 128, 256)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """Inputs and what the operation makes of them.

    Attributes:
      inputs: Operands as the module takes them; every value fits the operand dtype.
      expected: The exact result, float64.
      magnitude: The result of the operands' absolute values.
      reduction: Number of products per element of the result.
      suspects: Makes the results of well-known faults, by name.
    """

    inputs: tuple[Array, ...]
    expected: Array
    magnitude: Array
    reduction: int
    suspects: Callable[[], Iterator[tuple[str, Array]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation.

    Attributes:
      shapes: Returns the shapes of the operands.
      result: Returns the shape of the result.
      draw: Returns inputs of a kind, and the reference.
    """

    shapes: Callable[[Request, RequestCase], tuple[tuple[int, ...], ...]]
    result: Callable[[RequestCase], tuple[int, ...]]
    draw: Callable[[Request, RequestCase, str], Reference]


def draw_values(
    rng: np.random.Generator, kind: str, dtype: str, shape: tuple[int, ...]
) -> Array:
    """Draws operands that `dtype` holds exactly.

    `INTEGERS` are uniform in [-3, 3], so that sums are exact in float32 up to a length
    of 2^24 / 9; `NORMAL` are independent standard normal values.
    """
    if kind == INTEGERS:
        low, high = -LARGEST_INTEGER, LARGEST_INTEGER + 1
        return rng.integers(low, high, shape).astype(np.float64)
    return FORMATS[dtype].round(rng.standard_normal(shape))


def _matmul_shapes(
    request: Request, case: RequestCase
) -> tuple[tuple[int, int], tuple[int, int]]:
    b = (case.k, case.n) if request.layout == "nn" else (case.n, case.k)
    return (case.m, case.k), b


def _draw_matmul(request: Request, case: RequestCase, kind: str) -> Reference:
    rng = np.random.default_rng([case.m, case.n, case.k, KINDS.index(kind)])
    inputs = tuple(
        draw_values(rng, kind, request.operand_dtype, shape)
        for shape in _matmul_shapes(request, case)
    )
    a, b = inputs
    if request.layout == "nt":
        b = b.T

    def suspects() -> Iterator[tuple[str, Array]]:
        if case.m == case.n:
            yield "the transposed product", (a @ b).T
        for size in DROPPED_STEPS:
            if size < case.k:
                yield f"the product without the last {size} of k", a[:, :-size] @ b[
                    :-size
                ]
                yield f"the product without the first {size} of k", a[:, size:] @ b[
                    size:
                ]

    return Reference(
        inputs=inputs,
        expected=a @ b,
        magnitude=np.abs(a) @ np.abs(b),
        reduction=case.k,
        suspects=suspects,
    )


OPERATIONS = {
    "matmul": Operation(
        shapes=_matmul_shapes,
        result=lambda case: (case.m, case.n),
        draw=_draw_matmul,
    ),
}
