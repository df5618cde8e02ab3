"""What the matmul templates place about a schedule: its kind, and words about it."""

from kgen.emit import batches, gmem, order, ring, scales, store, warpgroups
from kgen.float8 import SUM_BITS
from kgen.plan.model import MatmulPlan

OPERANDS = ("a_gmem", "b_gmem")
NUMBERS = {1: "One", 2: "Two", 3: "Three", 4: "Four"}


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns names, literals and named booleans of the schedule."""
    return {
        "pipelined": plan.schedule == "pipelined",
        "warp_specialized": plan.schedule == "warp_specialized",
        "pallas_call": plan.schedule == "pallas_call",
        "persistent": plan.persistent,
        "one_tile": not plan.persistent,
        "ping_pong": plan.ping_pong,
        "warp_specialized_pipeline": plan.schedule == "warp_specialized"
        and not plan.ping_pong,
        "has_blocks": not plan.ping_pong,
        "has_scratch": plan.ping_pong or not plan.persistent,
        "swaps_operands": plan.swap_operands,
        "promotes": plan.promote,
        "sum_bits": SUM_BITS,
        "accumulates": not plan.promote,
        "body_refs": ", ".join(
            [
                *OPERANDS,
                *scales.refs(plan),
                *(r.name for r in (*gmem.refs(plan), *gmem.outputs(plan))),
            ]
        ),
        "scratch_types": _scratch_types(plan),
        **warpgroups.view(plan),
        **scales.view(plan),
        **store.view(plan),
        **order.view(plan),
        **ring.view(plan),
    }


def overview(plan: MatmulPlan) -> str:
    """Returns what the docstring says about the schedule."""
    tile = f"one {plan.tile_m}x{plan.tile_n} tile of C"
    if plan.schedule == "warp_specialized":
        return _warp_specialized_overview(plan, tile)
    if plan.schedule == "pallas_call":
        grid, parallel = "(m, n, k)", "m and n"
        if plan.batched:
            grid, parallel = "(batch, m, n, k)", "all but k"
        return (
            f"The grid is {grid} in blocks, as for `pl.pallas_call`: {parallel} are "
            f"parallel, a CTA for {tile}; k is sequential, and TMA loads blocks of A "
            "and B into a ring of SMEM slots while wgmma multiplies earlier ones."
            f"{batches.overview(plan)}"
        )
    return (
        f"Each CTA computes {tile} and walks K in steps of {plan.tile_k}. TMA loads "
        "the tiles of A and B into a ring of SMEM slots while wgmma multiplies earlier "
        f"ones.{batches.overview(plan)}"
    )


def _scratch_types(plan: MatmulPlan) -> str:
    if plan.schedule == "pallas_call":
        return '{"acc": plgpu.ACC((TILE_M, TILE_N), jnp.float32)}'
    if plan.ping_pong:
        return f"_scratch({'layout' * plan.autodiff})"
    return f'{{"out_smem": {store.out_smem(plan)}}}'


def _warp_specialized_overview(plan: MatmulPlan, tile: str) -> str:
    if plan.num_compute_wgs == 1:
        workers = f"one compute warpgroup multiplies {plan.wg_m}x{plan.wg_n}"
    else:
        number = NUMBERS[plan.num_compute_wgs].lower()
        workers = f"{number} compute warpgroups multiply {plan.wg_m}x{plan.wg_n} each"
    if plan.persistent:
        stores = "and store their part while the next tile is already loading"
        if plan.num_compute_wgs == 1:
            stores = "and stores its tile while the next one is already loading"
        if plan.ping_pong:
            stores = "in turns: one stores its tile while the other multiplies the next"
        text = (
            f"One CTA per SM works through {plan.tile_m}x{plan.tile_n} tiles of C in "
            f"steps of {plan.tile_k} along K. A memory warpgroup keeps TMA loading "
            "tiles of A and B into a ring of SMEM slots, also across the border of two "
            f"tiles of C; {workers} {stores}."
        )
    else:
        part = " over a part of K" if plan.split_k > 1 else ""
        text = (
            f"Each CTA computes {tile}{part} in steps of {plan.tile_k} along K. A "
            "memory warpgroup keeps TMA loading tiles of A and B into a ring of SMEM "
            f"slots; {workers}."
        )
    if plan.swap_operands:
        text += (
            " They compute the transposed tile, so that the few rows of A are columns "
            "of wgmma"
        )
        text += ", and turn it around as they store it." * plan.turns_product or "."
    text += scales.overview(plan) + batches.overview(plan)
    if plan.cluster > 1:
        shared = "B" if plan.cluster_m > 1 else "A"
        text += f" Two neighbouring CTAs load each tile of {shared} for both."
    if plan.split_k > 1:
        text += (
            f" {NUMBERS.get(plan.split_k, str(plan.split_k))} CTAs share a tile of C; "
            "their sums are added in the end, always in the same order."
        )
    return text
