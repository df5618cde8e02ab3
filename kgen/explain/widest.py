"""Why a plan has the swizzle that it has."""

from kgen.arch import ARCHS
from kgen.layouts import COLUMN, is_transposed
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import Layout, MatmulPlan


def why_swizzle(plan: MatmulPlan, operand: str, layout: Layout) -> str:
    """Returns one line on the SMEM layout of `operand`: `out`, or a factor."""
    widths = ARCHS[plan.arch].swizzles
    if layout.swizzle is None:
        return "plain rows: no swizzle fits their width"
    if layout.swizzle == widths[0]:
        return f"the widest that {plan.arch} has"
    wider = min(width for width in widths if width > layout.swizzle)
    undivided = [
        f"{name} = {size} of {dtype}"
        for name, size, dtype in _rows(plan, operand)
        if size * ITEMSIZE[dtype] % wider
    ]
    if undivided:
        return f"widest legal: {wider} B does not divide {' and '.join(undivided)}"
    return f"as the spec says; {wider} B would be legal too"


def _rows(plan: MatmulPlan, operand: str) -> list[tuple[str, int, str]]:
    """Returns (name, elements, dtype) of the rows that `operand`'s swizzle must divide.

    All factors have one swizzle, so it must divide the rows of each.
    """
    if operand == "out":
        if plan.out_order == COLUMN:
            return [(_of_tile(plan, "m"), plan.wg_m, plan.out_dtype)]
        return [("store.n", plan.store_n, plan.out_dtype)]
    rows = [("tile.k", plan.tile_k, plan.operand_dtype)]
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    if a_is_transposed:
        rows.append((_of_tile(plan, "m"), plan.wg_m, plan.operand_dtype))
    if not b_is_transposed:
        rows.append((_of_tile(plan, "n"), plan.wg_n, plan.operand_dtype))
    return rows


def _of_tile(plan: MatmulPlan, axis: str) -> str:
    """Returns what a warpgroup's part of the tile along an axis is called."""
    is_split = plan.num_compute_wgs > 1 and plan.split == axis
    return f"warpgroup {axis}" if is_split else f"tile.{axis}"
