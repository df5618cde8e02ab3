"""What is measured: one matrix product."""

import dataclasses

from kgen.plan.dtypes import ITEMSIZE
from kgen.roofline import Work, matmul_work

LAYOUTS = ("nn", "nt")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """C[m, n] = A[m, k] @ B, accumulated in float32.

    Attributes:
      shape: (m, n, k).
      operand_dtype: Elements of A.
      out_dtype: Elements of C.
      layout: `nn` if B is [k, n], `nt` if it is [n, k].
      b_dtype: Elements of B; empty if they are A's.
    """

    shape: tuple[int, int, int]
    operand_dtype: str
    out_dtype: str
    layout: str = "nn"
    b_dtype: str = ""

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}")

    @property
    def operand_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of A and B."""
        m, n, k = self.shape
        return (m, k), ((k, n) if self.layout == "nn" else (n, k))

    @property
    def operand_dtypes(self) -> tuple[str, str]:
        """Elements of A and of B."""
        return self.operand_dtype, self.b_dtype or self.operand_dtype

    @property
    def operand_bytes(self) -> int:
        """Bytes of A and B."""
        return sum(r * c for r, c in self.operand_shapes) * ITEMSIZE[self.operand_dtype]

    @property
    def work(self) -> Work:
        """What it computes, and moves if every element moves once."""
        return matmul_work(
            self.shape,
            self.shape[:2],
            operand_dtype=self.operand_dtype,
            out_dtype=self.out_dtype,
        )

    def __str__(self) -> str:
        m, n, k = self.shape
        return f"m={m}, n={n}, k={k}"
