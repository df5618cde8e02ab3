"""What the matmul templates place about the ring of SMEM slots of A and B."""

from kgen.layouts import is_transposed
from kgen.plan.model import MatmulPlan


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns block shapes and index maps of A and B, and their slots."""
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    first = "first + ki" if plan.split_k > 1 else "ki"
    m, n = ("0", "0") if plan.persistent else ("m", "n")
    share_a = ['"neighbour"'] if plan.cluster_n > 1 else []
    share_b = ['"neighbour"'] if plan.cluster_m > 1 else []
    a_shape = "(TILE_K, TILE_M)" if a_is_transposed else "(TILE_M, TILE_K)"
    a_index = f"({first}, {m})" if a_is_transposed else f"({m}, {first})"
    b_shape = "(TILE_N, TILE_K)" if b_is_transposed else "(TILE_K, TILE_N)"
    b_index = f"({n}, {first})" if b_is_transposed else f"({first}, {n})"
    return {
        "a_block": ", ".join([a_shape, f"lambda ki: {a_index}", *share_a]),
        "b_block": ", ".join([b_shape, f"lambda ki: {b_index}", *share_b]),
        "a_step": "steps, rows" if a_is_transposed else "rows, steps",
        "b_step": "columns, steps" if b_is_transposed else "steps, columns",
        "slot_operands": f"ring.a_smem.at[slot]{'.T' * a_is_transposed}, "
        f"ring.b_smem.at[slot]{'.T' * b_is_transposed}",
        "a_ring": _slots(a_shape.strip("()"), "DTYPE"),
        "b_ring": _slots(
            b_shape.strip("()"),
            "DTYPE" if plan.b_dtype == plan.operand_dtype else "B_DTYPE",
        ),
    }


def _slots(tile: str, dtype: str) -> str:
    shape = f"(MAX_CONCURRENT_STEPS, {tile})"
    return f"plgpu.SMEM({shape}, {dtype}, transforms=TRANSFORMS)"
