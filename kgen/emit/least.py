"""The least sizes of arrays that TMA clips: two tiles where copies begin beyond one.

JAX leaves a dimension of a single tile out of what it tells TMA, and with it the place
where a copy begins: nothing is clipped beyond that tile, the copy reads or writes the
tile itself. Where a copy of one tile may begin there, the array must have another one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kgen.emit.operands import out_dims
from kgen.layouts import operand_dims
from kgen.plan.model import MatmulPlan


class Extent(NamedTuple):
    """How far a copy reaches along a dimension.

    Attributes:
      size: Elements of one copy.
      name: The module's name of the same.
      block: Elements of which a copy is for, wherever the array ends.
    """

    size: int
    name: str
    block: int


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns what `_pad` and `_padded` take beside a shape."""
    if not plan.any_edge:
        return {}
    of_operands = any(_of_operands(plan))
    parameter = ", least=(0, 0)"
    return {
        "has_least": of_operands or bool(of_output(plan)),
        "pad_least": parameter if of_operands else "",
        "padded_least": parameter if of_operands or of_output(plan) else "",
        "passed_least": ", least" if of_operands else "",
    }


def padded_operands(plan: MatmulPlan) -> tuple[str, str]:
    """Returns A and B with the padding that the kernel needs, as source."""
    a, b = _of_operands(plan)
    return f"_pad(a{a})", f"_pad(b{b})"


def of_output(plan: MatmulPlan) -> str:
    """Returns the least sizes of the output, as a further argument of `_padded`."""
    dims = _names(out_dims(plan, "m", "n"))
    return _least([dims], _stored(plan), plan.out_layout.tiling)


def _of_operands(plan: MatmulPlan) -> tuple[str, str]:
    """Returns the least sizes of A and of B, as a further argument of `_pad`."""
    extents = {
        "m": Extent(plan.tile_m, "TILE_M", plan.tile_m * plan.cluster_m),
        "n": Extent(plan.tile_n, "TILE_N", plan.tile_n * plan.cluster_n),
        "k": Extent(plan.tile_k, "TILE_K", plan.tile_k * plan.split_k),
    }
    tiling = plan.operand_layout.tiling
    a, b = (dims.split(", ") for dims in operand_dims(plan.layout))
    if not plan.autodiff:
        return _least([a], extents, tiling), _least([b], extents, tiling)
    # The products of gradients have operands that lie in memory the other way, too.
    a_orders, b_orders = ([dims, dims[::-1]] for dims in (a, b))
    return _least(a_orders, extents, tiling), _least(b_orders, extents, tiling)


def _stored(plan: MatmulPlan) -> Mapping[str, Extent]:
    """Returns the extents of what one copy stores."""
    rows = (plan.wg_m, "WG_M" if plan.wg_m < plan.tile_m else "TILE_M")
    if plan.store_m < plan.wg_m:  # The last piece may have fewer rows.
        rows = (plan.wg_m % plan.store_m or plan.store_m, "STORE_M")
    columns = (plan.wg_n, "WG_N" if plan.wg_n < plan.tile_n else "TILE_N")
    if plan.schedule != "pallas_call" and plan.store_n < plan.wg_n:
        columns = (plan.store_n, "STORE_N")
    return {
        "m": Extent(*rows, plan.tile_m * plan.cluster_m),
        "n": Extent(*columns, plan.tile_n * plan.cluster_n),
    }


def _least(
    orders: Sequence[list[str]],
    extents: Mapping[str, Extent],
    tiling: tuple[int, int] | None,
) -> str:
    """Returns the least rows and columns for every order in which dimensions may lie."""
    found = []
    for tile, dims in zip(tiling or (1, 1), zip(*orders, strict=True), strict=True):
        needed = [
            extents[dim]
            for dim in dims
            if extents[dim].size <= tile < extents[dim].block
        ]
        found.append(f"{max(needed).name} + 1" if needed else "0")
    return "" if set(found) == {"0"} else f", ({', '.join(found)})"


def _names(dims: str) -> list[str]:
    return dims.strip("()").split(", ")
