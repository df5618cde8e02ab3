"""What is stored of an accumulator: all of it, or a piece, as the epilogue makes it."""

from kgen.emit import epilogue, gmem
from kgen.emit.epilogue_steps import in_kernel
from kgen.epilogue.steps import Step
from kgen.plan.model import MatmulPlan

CHEAP = frozenset({"scale", "scale_rows", "scale_columns", "bias", "relu", "clamp"})
"""Steps that take no longer for all of a tile than the loads of their vectors do."""


def view(plan: MatmulPlan, part: str, *, in_pieces: bool) -> dict[str, object]:
    """Returns the values of the templates that store a tile.

    Args:
      plan: The plan.
      part: A piece of the product, as source.
      in_pieces: Whether a warpgroup stores its part of the tile piece by piece.
    """
    piece, whole, finished = part, "product", ""
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
