"""What the matmul template places about a schedule: who does what, and in which order."""

from kgen.emit import batches, gmem, scales, store
from kgen.emit.edges import count, out_shape
from kgen.emit.epilogue_steps import in_kernel
from kgen.emit.operands import out_dims
from kgen.epilogue.steps import FLOAT32
from kgen.float8 import SUM_BITS
from kgen.layouts import COLUMN, is_transposed
from kgen.plan.model import MatmulPlan

OPERANDS = ("a_gmem", "b_gmem")
NUMBERS = {1: "One", 2: "Two", 3: "Three", 4: "Four"}


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns names, literals and named booleans of the schedule."""
    shared = plan.num_compute_wgs > 1
    splits_m, splits_n = shared and plan.split == "m", shared and plan.split == "n"
    dimension = "rows" if plan.split == "m" else "columns"
    out_smem = _out_smem(plan, splits_m, splits_n)
    turn = ".T" if plan.turns_product else ""
    part = "columns" if plan.swap_operands else ":, columns"
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
        "splits_m": splits_m,
        "splits_n": splits_n,
        "num_compute_wgs": plan.num_compute_wgs,
        "compute_wgs_reason": (
            _compute_wgs_reason(plan, dimension)
            if shared
            else "A single warpgroup multiplies."
        ),
        "compute_registers": plan.registers.compute_limit,
        "memory_registers": plan.memory_registers,
        "others_share": (
            "the others share the rest" if shared else "the other takes the rest"
        ),
        "step_work": _step_work(plan, splits_m, splits_n),
        "wgmma_operands": _wgmma_operands(plan, splits_m, splits_n),
        "acc_shape": _acc_shape(plan, splits_m, splits_n),
        "out_slot": 'out_smem.at[lax.axis_index("wg")]' if shared else "out_smem",
        "out_part": (
            gmem.passed(
                plan,
                "_wg_rows()" if splits_m else None,
                "_wg_columns()" if splits_n else None,
            )
            if in_kernel(plan)
            else _out_part(plan, splits_m, splits_n)
        ),
        "store_refs": gmem.passed(plan),
        "body_refs": ", ".join(
            [
                *OPERANDS,
                *scales.refs(plan),
                *(r.name for r in (*gmem.refs(plan), *gmem.outputs(plan))),
            ]
        ),
        "out_smem": out_smem,
        "scratch_types": _scratch_types(plan, out_smem),
        "store_pieces": f"{_wg_n(splits_n)} // STORE_N",
        # Then a tile begins with another slot than the one used longest ago.
        "store_slots_shift": plan.persistent and plan.stores % plan.store_slots != 0,
        "product_word": "transposed product" if plan.turns_product else "product",
        "slot": f"slot{turn}[...]",
        "out_smem_ref": f"out_smem{turn}[...]",
        "out_piece": "columns" if plan.out_order == COLUMN else ":, columns",
        **scales.view(plan),
        **store.view(plan, f"product[{part}]", in_pieces=stores_pieces(plan)),
        **_order(plan),
        **_blocks(plan),
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


def _compute_wgs_reason(plan: MatmulPlan, dimension: str) -> str:
    if plan.ping_pong:
        return "Compute warpgroups; they take turns, a tile each."
    return f"Compute warpgroups; they split the {dimension} of a tile."


def _scratch_types(plan: MatmulPlan, out_smem: str) -> str:
    if plan.schedule == "pallas_call":
        return '{"acc": plgpu.ACC((TILE_M, TILE_N), jnp.float32)}'
    if plan.ping_pong:
        return f"_scratch({'layout' * plan.autodiff})"
    return f'{{"out_smem": {out_smem}}}'


def _slots(tile: str, dtype: str) -> str:
    shape = f"(MAX_CONCURRENT_STEPS, {tile})"
    return f"plgpu.SMEM({shape}, {dtype}, transforms=TRANSFORMS)"


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


def stores_pieces(plan: MatmulPlan) -> bool:
    """Whether a warpgroup stores its part of the tile piece by piece.

    Two outputs take turns in the slots even if there is one piece of each.
    """
    if plan.differentiates_epilogue or len(gmem.outputs(plan)) > 1:
        return True
    return plan.schedule != "pallas_call" and plan.store_n < plan.wg_n


def store_dtype(plan: MatmulPlan) -> str:
    """Returns the name of the dtype of what the kernel stores."""
    return "jnp.float32" if plan.split_k > 1 else out_dtype(plan)


def out_dtype(plan: MatmulPlan) -> str:
    """Returns the name of the result's dtype."""
    if plan.out_dtype == plan.operand_dtype:
        return "DTYPE"
    return "OUT_DTYPE" if has_own_out_dtype(plan) else "jnp.float32"


def has_own_out_dtype(plan: MatmulPlan) -> bool:
    """Whether a module names its result's dtype: float32 sums of parts of K have it."""
    summed = plan.split_k > 1 and plan.out_dtype == FLOAT32
    return plan.out_dtype != plan.operand_dtype and not summed


def out_transforms(plan: MatmulPlan) -> list[str]:
    """Returns the argument that says how the output lies in SMEM, if any is needed."""
    if plan.out_layout.swizzle is None:
        return []
    name = "OUT_TRANSFORMS" if has_own_out_transforms(plan) else "TRANSFORMS"
    return [f"transforms={name}"]


def has_own_out_transforms(plan: MatmulPlan) -> bool:
    """Whether the output lies in SMEM otherwise than A and B."""
    out = plan.out_layout
    return out.swizzle is not None and out != plan.operand_layout


def _step_work(plan: MatmulPlan, splits_m: bool, splits_n: bool) -> str:
    if plan.swap_operands:
        whose = "this warpgroup's" if splits_n else "all"
        return f"{whose} columns of B, as rows, times all rows of A"
    return {
        (True, False): "this warpgroup's rows of A times all of B's columns",
        (False, True): "all of A's rows times this warpgroup's columns of B",
        (False, False): "a tile of A times a tile of B",
    }[splits_m, splits_n]


def _wgmma_operands(plan: MatmulPlan, splits_m: bool, splits_n: bool) -> str:
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    a, b = "a_smem", "b_smem"
    if splits_m:
        a = f"a_smem.at[{':, ' * a_is_transposed}_wg_rows()]"
    if splits_n:
        b = f"b_smem.at[{':, ' * (not b_is_transposed)}_wg_columns()]"
    if plan.swap_operands:
        return f"{b}{'.T' * (not b_is_transposed)}, {a}{'.T' * (not a_is_transposed)}"
    return f"{a}{'.T' * a_is_transposed}, {b}{'.T' * b_is_transposed}"


def _out_part(plan: MatmulPlan, splits_m: bool, splits_n: bool) -> str:
    """Returns the part of the output's tile that a warpgroup stores."""
    if not (splits_m or splits_n):
        return "out_gmem"
    part = "_wg_rows()" if splits_m else "_wg_columns()"
    is_first = splits_m != (plan.out_order == COLUMN)
    return f"out_gmem.at[{'' if is_first else ':, '}{part}]"


def _acc_shape(plan: MatmulPlan, splits_m: bool, splits_n: bool) -> str:
    rows, columns = _wg_m(splits_m), _wg_n(splits_n)
    if plan.swap_operands:
        rows, columns = columns, rows
    return f"({rows}, {columns})"


def _wg_m(splits_m: bool) -> str:
    return "WG_M" if splits_m else "TILE_M"


def _wg_n(splits_n: bool) -> str:
    return "WG_N" if splits_n else "TILE_N"


def _out_smem(plan: MatmulPlan, splits_m: bool, splits_n: bool) -> str:
    rows = _wg_m(splits_m)
    columns = "STORE_N" if stores_pieces(plan) else _wg_n(splits_n)
    dimensions = [
        *(["COMPUTE_WGS"] if plan.num_compute_wgs > 1 else []),
        *(["STORE_SLOTS"] if stores_pieces(plan) else []),
        *((columns, rows) if plan.out_order == COLUMN else (rows, columns)),
    ]
    shape = f"({', '.join(dimensions)})"
    arguments = [shape, store_dtype(plan), *out_transforms(plan)]
    return f"plgpu.SMEM({', '.join(arguments)})"


def blocks(plan: MatmulPlan) -> tuple[str, str, str]:
    """Returns how much of m, n and k is worked on at once, as source."""
    return (
        "CLUSTER * TILE_M" if plan.cluster_m > 1 else "TILE_M",
        "CLUSTER * TILE_N" if plan.cluster_n > 1 else "TILE_N",
        "SPLIT_K * TILE_K" if plan.split_k > 1 else "TILE_K",
    )


def _order(plan: MatmulPlan) -> dict[str, object]:
    """Returns grid, cluster and raster."""
    block_m, block_n, block_k = blocks(plan)
    tiles = count(plan, "m", block_m), count(plan, "n", block_n)
    grid, names = list(tiles), ["m", "n"]
    all_tiles = "math.prod(tiles)" if plan.batched else "tiles[0] * tiles[1]"
    if plan.persistent:
        grid, names = [f"_num_ctas({all_tiles}, num_sms)"], ["cta"]
    elif plan.raster is not None:
        tiles_of = "tiles[1] * tiles[2]" if plan.batched else all_tiles
        grid, names = [tiles_of], ["cta"]
    if plan.batched and not plan.persistent:
        grid, names = ["num_matrices", *grid], ["batch", *names]
    if plan.split_k > 1:
        grid, names = ["SPLIT_K", *grid], ["part", *names]
    arguments = [f"num_steps={count(plan, 'k', block_k)}"]
    if plan.raster is not None:
        arguments.insert(0, "tiles=tiles")
    raster = plan.raster
    return {
        "size_of_m": block_m,
        "size_of_n": block_n,
        "size_of_k": block_k,
        "has_order_constants": raster is not None or plan.cluster * plan.split_k > 1,
        "has_raster": raster is not None,
        "raster_dim": "mn".index(raster.order) if raster else None,
        "raster_width": raster.width if raster else None,
        "raster_reason": _raster_reason(plan),
        "limits_m": raster is None,
        "tiles": batches.in_batch(plan, f"({', '.join(tiles)})", "num_matrices"),
        "body": "_matmul_tiles" if plan.persistent else "_matmul_tile",
        "body_arguments": ", ".join(arguments),
        "tile_parameters": "num_steps" if raster is None else "tiles, num_steps",
        "tile_index": (
            'lax.axis_index("m"), lax.axis_index("n")'
            if raster is None
            else 'plgpu.planar_snake(lax.axis_index("cta"), '
            f"tiles{'[1:]' * plan.batched}, RASTER_DIM, RASTER_WIDTH)"
        ),
        "over_part": " over its part of K" if plan.split_k > 1 else "",
        "static_argnames": (
            '("num_sms", "interpret")' if plan.persistent else '"interpret"'
        ),
        "grid": f"({', '.join(grid)}{',' if len(grid) == 1 else ''})",
        "grid_names": f"({', '.join(map(repr, names))}{',' if len(names) == 1 else ''})",
        "has_cluster": plan.cluster > 1,
        "stands_alone": plan.cluster == 1,
        "cluster": plan.cluster,
        **_rounds(plan),
        "clusters_m": plan.cluster_m > 1,
        "clusters_n": plan.cluster_n > 1,
        "cluster_shares": "B" if plan.cluster_m > 1 else "A",
        "cluster_along": "m" if plan.cluster_m > 1 else "n",
        "splits_k": plan.split_k > 1,
        "split_k": plan.split_k,
    }


def _rounds(plan: MatmulPlan) -> dict[str, object]:
    """Returns how CTAs are counted, or clusters of two."""
    keys = ("ctas", "room", "sms", "many_ctas", "few_ctas", "some_tiles")
    of_ctas = "CTAs", "SM", "num_sms", "132", "128", "512 tiles"
    pairs = (
        "clusters",
        "two SMs",
        "num_sms // CLUSTER",
        "66",
        "64",
        "256 pairs of tiles",
    )
    return dict(zip(keys, pairs if plan.cluster > 1 else of_ctas, strict=True))


def _raster_reason(plan: MatmulPlan) -> str:
    if plan.raster is None:
        return ""
    along, across = plan.raster.order, "n" if plan.raster.order == "m" else "m"
    bands = f"Bands of {plan.raster.width} tiles along {along}"
    return f"{bands}, walked to and fro along {across}: CTAs share what lies in L2."


def _blocks(plan: MatmulPlan) -> dict[str, object]:
    """Returns block shapes and index maps of A and B, and how the output is sliced."""
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    first = "first + ki" if plan.split_k > 1 else "ki"
    m, n = ("0", "0") if plan.persistent else ("m", "n")
    share_a = ['"neighbour"'] if plan.cluster_n > 1 else []
    share_b = ['"neighbour"'] if plan.cluster_m > 1 else []
    a_shape = "(TILE_K, TILE_M)" if a_is_transposed else "(TILE_M, TILE_K)"
    a_index = f"({first}, {m})" if a_is_transposed else f"({m}, {first})"
    b_shape = "(TILE_N, TILE_K)" if b_is_transposed else "(TILE_K, TILE_N)"
    b_index = f"({n}, {first})" if b_is_transposed else f"({first}, {n})"
    part = "part, " if plan.split_k > 1 else ""
    part = "batch, " if plan.batched else part
    out = out_dims(plan, "rows", "columns").strip("()")
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
        "out_gmem": (
            gmem.passed(plan, "rows", "columns", batch="batch" * plan.batched)
            if in_kernel(plan)
            else f"out_gmem.at[{part}{out}]"
        ),
        "out_shape": out_shape(plan, store_dtype(plan)),
    }
