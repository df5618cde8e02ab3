"""What the matmul templates place about how operands and the result lie in memory."""

from typing import Protocol

from kgen.layouts import COLUMN, is_transposed, operand_dims


class Ordered(Protocol):
    """Any plan with a layout and an order of the result."""

    @property
    def layout(self) -> str: ...
    @property
    def out_order(self) -> str: ...


def view(plan: Ordered) -> dict[str, object]:
    """Returns dimensions, shapes and words of A, B and the result."""
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    a_dims, b_dims = operand_dims(plan.layout)
    return {
        "product": product(plan),
        "a_dims": a_dims,
        "b_dims": b_dims,
        "out_dims": "n, m" if plan.out_order == COLUMN else "m, n",
        "a_shape": f"({a_dims})",
        "b_unpacked": "(n, _)" if b_is_transposed else "(_, n)",
        "b_shape": "(n, b_k)" if b_is_transposed else "(b_k, n)",
        "a_operand": "a_smem.T" if a_is_transposed else "a_smem",
        "b_operand": "b_smem.T" if b_is_transposed else "b_smem",
        "rows_of_a": ":, rows" if a_is_transposed else "rows, :",
        "columns_of_b": "columns, :" if b_is_transposed else ":, columns",
    }


def product(plan: Ordered, a: str = "A", b: str = "B") -> str:
    """Returns what is computed, in terms of A and B as they are passed."""
    of_both = arguments(plan, a, b).replace(", ", " @ ")
    return f"({of_both}).T" if plan.out_order == COLUMN else of_both


def formula(plan: Ordered) -> str:
    """Returns the formula of the product, with the dimensions as they lie in memory."""
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    a = "A[k, m].T" if a_is_transposed else "A[m, k]"
    b = "B[n, k].T" if b_is_transposed else "B[k, n]"
    c = "C[n, m].T" if plan.out_order == COLUMN else "C[m, n]"
    return f"{c} = {a} @ {b}"


def arguments(plan: Ordered, a: str = "a", b: str = "b") -> str:
    """Returns both operands as [m, k] and [k, n], as source."""
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    return f"{a}{'.T' * a_is_transposed}, {b}{'.T' * b_is_transposed}"


def out_dims(plan: Ordered, rows: str, columns: str) -> str:
    """Returns rows and columns of the result in the order of memory, as a tuple."""
    pair = (columns, rows) if plan.out_order == COLUMN else (rows, columns)
    return f"({', '.join(pair)})"
