"""What is stored of an accumulator: all of it, or a piece, as the epilogue makes it."""

from kgen.emit import epilogue
from kgen.plan.model import MatmulPlan


def view(plan: MatmulPlan, part: str, *, in_pieces: bool) -> dict[str, object]:
    """Returns the values of the templates that store a tile.

    Args:
      plan: The plan.
      part: A piece of the product, as source.
      in_pieces: Whether a warpgroup stores its part of the tile piece by piece.
    """
    piece, whole = part, "product"
    if epilogue.in_kernel(plan):
        piece = epilogue.apply(plan, piece, "columns")
        whole = epilogue.apply(plan, whole, None)
    outputs = len(epilogue.outputs(plan))
    return {
        "piece": turned(plan, piece) if outputs == 1 else piece,
        "whole": turned(plan, whole),
        "turned_result": turned(plan, "result"),
        "stores_outputs": outputs > 1,
        "stores_pieces": in_pieces and outputs == 1,
        "has_store_constants": in_pieces,
    }


def turned(plan: MatmulPlan, product: str) -> str:
    """Returns a product in the registers from which it is stored."""
    if plan.turns_product:
        return f"plgpu.layout_cast({product}, plgpu.Layout.WGMMA_TRANSPOSED)"
    return product
