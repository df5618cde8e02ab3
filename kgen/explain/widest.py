"""Why a plan has the swizzle that it has."""

from kgen.arch import ARCHS
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import Layout, MatmulPlan


def why_swizzle(plan: MatmulPlan, operand: str, layout: Layout) -> str:
    """Returns one line on the SMEM layout of `operand`: `a`, `b` or `out`."""
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

    A and B have one swizzle, so it must divide the rows of both.
    """
    if operand == "out":
        return [("store.n", plan.store_n, plan.out_dtype)]
    rows = [("tile.k", plan.tile_k, plan.operand_dtype)]
    if plan.layout == "nn":
        name = "tile.n" if plan.wg_n == plan.tile_n else "warpgroup n"
        rows.append((name, plan.wg_n, plan.operand_dtype))
    return rows
