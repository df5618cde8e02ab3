"""What is measured: a matrix product, or those of a gated linear unit."""

import dataclasses
import math
from typing import Self

from kgen.layouts import LAYOUTS, OUT_ORDERS, ROW, operand_shapes, out_shape
from kgen.plan.dtypes import ITEMSIZE, default_out
from kgen.roofline import Work, matmul_work
from kgen.verify.request import GLU, Request, RequestCase


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """C[m, n] = A[m, k] @ B, accumulated in float32.

    Attributes:
      shape: (m, n, k).
      operand_dtype: Elements of A.
      out_dtype: Elements of C.
      layout: `nn`, `nt`, `tn` or `tt`: see `kgen.layouts`.
      b_dtype: Elements of B; empty if they are A's.
      out_order: `row`, or `column` if the result is [n, m].
      batch: Leading dimensions of A, B and C.
      weights: Matrices like B that A is multiplied with, whose products become one C.
    """

    shape: tuple[int, int, int]
    operand_dtype: str
    out_dtype: str
    layout: str = "nn"
    b_dtype: str = ""
    out_order: str = ROW
    batch: tuple[int, ...] = ()
    weights: int = 1

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}")
        if self.out_order not in OUT_ORDERS:
            raise ValueError(f"out_order must be one of {', '.join(OUT_ORDERS)}")

    @classmethod
    def of(cls, request: Request) -> Self:
        """Returns the problem of a request with one case."""
        (case,) = request.cases
        assert isinstance(case, RequestCase), "the case of a product"
        return cls(
            shape=(case.m, case.n, case.k),
            operand_dtype=request.operand_dtype,
            b_dtype=request.b_dtype,
            out_dtype=request.out_dtype or default_out(request.operand_dtype),
            layout=request.layout,
            out_order=request.out_order,
            batch=case.batch,
            weights=2 if request.op == GLU else 1,
        )

    @property
    def operand_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of A and B."""
        a, b = operand_shapes(self.layout, *self.shape)
        return (*self.batch, *a), (*self.batch, *b)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        m, n, _ = self.shape
        return (*self.batch, *out_shape(self.out_order, m, n))

    @property
    def operand_dtypes(self) -> tuple[str, str]:
        """Elements of A and of B."""
        return self.operand_dtype, self.b_dtype or self.operand_dtype

    @property
    def operand_bytes(self) -> int:
        """Bytes of A and of each B."""
        a, b = map(math.prod, self.operand_shapes)
        return (a + b * self.weights) * ITEMSIZE[self.operand_dtype]

    @property
    def work(self) -> Work:
        """What it computes, and moves if every element moves once."""
        of_one = matmul_work(
            self.shape,
            self.shape[:2],
            operand_dtype=self.operand_dtype,
            out_dtype=self.out_dtype,
            weights=self.weights,
        )
        return of_one.times(math.prod(self.batch))

    def __str__(self) -> str:
        return size_text(self.shape, self.batch)


def size_text(shape: tuple[int, int, int], batch: tuple[int, ...]) -> str:
    """Returns a size for people: `batch=[64], m=512, n=512, k=512`."""
    m, n, k = shape
    size = f"m={m}, n={n}, k={k}"
    return f"batch={[*batch]}, {size}" if batch else size
