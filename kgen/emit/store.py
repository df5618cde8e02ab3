"""What is stored of an accumulator: all of it, or a piece, as the epilogue makes it."""

from kgen.emit import epilogue, gmem, output, warpgroups
from kgen.emit.edges import out_shape
from kgen.emit.epilogue_steps import in_kernel
from kgen.emit.operands import out_dims
from kgen.epilogue.steps import Step
from kgen.layouts import COLUMN
from kgen.plan.model import MatmulPlan

CHEAP = frozenset({"scale", "scale_rows", "scale_columns", "bias", "relu", "clamp"})
"""Steps that take no longer for all of a tile than the loads of their vectors do."""


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the values of the templates that store a tile."""
    turn = ".T" if plan.turns_product else ""
    return {
        "out_slot": _out_slot(plan),
        "out_part": _out_part(plan),
        "store_refs": gmem.passed(plan),
        "tile_refs": gmem.whole(plan),
        "out_smem": out_smem(plan),
        "store_pieces": f"{warpgroups.columns(plan)} // STORE_N",
        # Then a tile begins with another slot than the one used longest ago.
        "store_slots_shift": plan.persistent and plan.stores % plan.store_slots != 0,
        "product_word": "transposed product" if plan.turns_product else "product",
        "slot": f"slot{turn}[...]",
        "out_smem_ref": f"out_smem{turn}[...]",
        "out_piece": "columns" if plan.out_order == COLUMN else ":, columns",
        "out_gmem": _out_gmem(plan),
        "out_shape": out_shape(plan, output.store_dtype(plan)),
        **_made(plan),
    }


def _made(plan: MatmulPlan) -> dict[str, object]:
    """Returns what is made of the product, or of a piece of it, before it is stored."""
    in_pieces = stores_pieces(plan)
    part = "columns" if plan.swap_operands else ":, columns"
    piece, whole, finished = f"product[{part}]", "product", ""
    if in_kernel(plan):
        whole = epilogue.apply(plan, whole, None)
        if in_pieces and finishes_at_once(plan):
            finished = whole
        else:
            piece = epilogue.apply(plan, piece, "columns")
    outputs = len(gmem.outputs(plan))
    return {
        "piece": turned(plan, piece) if outputs == 1 else piece,
        "whole": turned(plan, whole),
        "finished": finished,
        "turned_result": turned(plan, "result"),
        "stores_outputs": outputs > 1,
        "stores_pieces": in_pieces and outputs == 1,
        "has_store_constants": in_pieces,
    }


def stores_pieces(plan: MatmulPlan) -> bool:
    """Whether a warpgroup stores its part of the tile piece by piece.

    Two outputs take turns in the slots even if there is one piece of each.
    """
    if plan.differentiates_epilogue or len(gmem.outputs(plan)) > 1:
        return True
    return plan.schedule != "pallas_call" and plan.store_n < plan.wg_n


def finishes_at_once(plan: MatmulPlan) -> bool:
    """Whether the epilogue is applied to all of a part before its pieces are stored.

    Loads that wait for the copies of the piece before cost their whole latency, for each
    piece. What they load must fit beside the accumulator, and what is computed must be so
    little that the first copy does not wait for it.
    """
    steps = plan.epilogue
    vectors = [step for step in steps if len(step.axes) == 1]
    needed = sum(_vector_registers(plan, step) for step in vectors)
    left = plan.registers.compute_limit - plan.registers.estimate
    cheap = all(step.op in CHEAP for step in steps)
    return bool(vectors) and cheap and not plan.autodiff and needed <= left


def _vector_registers(plan: MatmulPlan, step: Step) -> int:
    """Returns the registers per thread that a vector takes in wgmma's layout.

    A thread has 2 of every 64 rows, and 2 of every 8 columns.
    """
    size = plan.wg_m if step.axes == "m" else plan.wg_n
    is_row = step.axes == ("n" if plan.swap_operands else "m")
    return size // 32 if is_row else size // 4


def turned(plan: MatmulPlan, product: str) -> str:
    """Returns a product in the registers from which it is stored."""
    if plan.turns_product:
        return f"plgpu.layout_cast({product}, plgpu.Layout.WGMMA_TRANSPOSED)"
    return product


def _out_slot(plan: MatmulPlan) -> str:
    """Returns the SMEM that is a warpgroup's own, as source."""
    if plan.num_compute_wgs == 1:
        return "out_smem"
    return "out_smem.at[wg]" if plan.owns_ring else 'out_smem.at[lax.axis_index("wg")]'


def out_smem(plan: MatmulPlan) -> str:
    """Returns the SMEM through which the output is stored, as source."""
    rows = warpgroups.rows(plan)
    columns = "STORE_N" if stores_pieces(plan) else warpgroups.columns(plan)
    dimensions = [
        *(["COMPUTE_WGS"] if plan.num_compute_wgs > 1 else []),
        *(["STORE_SLOTS"] if stores_pieces(plan) else []),
        *((columns, rows) if plan.out_order == COLUMN else (rows, columns)),
    ]
    shape = f"({', '.join(dimensions)})"
    arguments = [shape, output.store_dtype(plan), *output.transforms(plan)]
    return f"plgpu.SMEM({', '.join(arguments)})"


def _out_part(plan: MatmulPlan) -> str:
    """Returns the part of the output's tile that a warpgroup stores."""
    rows = "_wg_rows()" if warpgroups.splits_m(plan) else None
    columns = "_wg_columns()" if warpgroups.splits_n(plan) else None
    if in_kernel(plan):
        return gmem.passed(plan, rows, columns)
    if not (rows or columns):
        return "out_gmem"
    is_first = bool(rows) != (plan.out_order == COLUMN)
    return f"out_gmem.at[{'' if is_first else ':, '}{rows or columns}]"


def _out_gmem(plan: MatmulPlan) -> str:
    """Returns the output's tile, with what the epilogue reads there."""
    if in_kernel(plan):
        batch = "batch" * plan.batched
        return gmem.passed(plan, "rows", "columns", batch=batch, of_tile=True)
    part = "part, " if plan.split_k > 1 else ""
    part = "batch, " if plan.batched else part
    out = out_dims(plan, "rows", "columns").strip("()")
    return f"out_gmem.at[{part}{out}]"
