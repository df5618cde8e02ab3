"""What the matmul templates place about leading dimensions of the operands."""

from typing import Protocol

from kgen.arch import ARCHS
from kgen.emit import operands
from kgen.emit.operands import Ordered, out_dims
from kgen.layouts import COLUMN, operand_dims
from kgen.plan.model import MatmulPlan

LEADING = "..., "


class Batched(Ordered, Protocol):
    """A plan that says whether its operands may have leading dimensions."""

    @property
    def batched(self) -> bool: ...


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns how the matrices of a batch are found, and what they are called.

    Without a batch nothing is there that two dimensions do not need.
    """
    batched = plan.batched
    lead = LEADING if batched else ""
    a_dims, b_dims = operand_dims(plan.layout)
    keywords = [*(["num_sms"] if plan.persistent else []), "interpret"]
    return {
        "batched": batched,
        "limits_batch": batched and not plan.persistent,
        "max_batch": f"{ARCHS[plan.arch].max_grid_yz:_}",
        "product": product(plan),
        "a_dims": f"{lead}{a_dims}",
        "b_dims": f"{lead}{b_dims}",
        "out_dims": f"{lead}{'n, m' if plan.out_order == COLUMN else 'm, n'}",
        "of_matrix": "[-2:]" if batched else "",
        "other_ndim": f"jax.typeof(operand).ndim {'<' if batched else '!='} 2",
        "dimensions": "2 dimensions or more" if batched else "2 dimensions",
        "may_be_empty": plan.any_edge or batched,
        "no_elements": _no_elements(plan),
        "a_matrix": matrix(plan, "a_gmem"),
        "b_matrix": matrix(plan, "b_gmem"),
        "matrix_of_a": "a_matrix" if batched else "a_gmem",
        "matrix_of_b": "b_matrix" if batched else "b_gmem",
        "out_matrix": "out_gmem.at[batch]" if batched else "out_gmem",
        "matrix_shape": "operand.shape[1:]" if batched else "operand.shape",
        "no_pad": "(0, 0), " if batched else "",
        "keywords": ", ".join(f"{name}={name}" for name in keywords),
        "keyword_names": ", ".join(keywords),
        **_tiles(plan),
    }


def matrix(plan: Batched, ref: str) -> str:
    """Returns the part of an operand that belongs to one of the batch, as source."""
    return f"_matrix({ref}, batch)" if plan.batched else ref


def in_batch(plan: Batched, dimensions: str, first: str) -> str:
    """Returns a tuple's source with what a batch puts first."""
    return dimensions.replace("(", f"({first}, ", 1) if plan.batched else dimensions


def product(plan: Batched) -> str:
    """Returns what is computed, in terms of A and B as they are passed."""
    return turned(plan, operands.product(plan))


def formula(plan: Batched) -> str:
    """Returns the formula of the product, with the dimensions as they lie in memory."""
    text = turned(plan, operands.formula(plan))
    return text.replace("[", f"[{LEADING}") if plan.batched else text


def turned(plan: Batched, source: str) -> str:
    """Returns source in which matrices are transposed, and not the batch."""
    return source.replace(".T", ".mT") if plan.batched else source


def reshaped(plan: Batched, result: str) -> str:
    """Returns the products of all matrices with the leading dimensions of the result."""
    if not plan.batched:
        return result
    return f"{result}.reshape{in_batch(plan, out_dims(plan, 'm', 'n'), '*batch')}"


def broadcast(plan: Batched) -> str:
    """Returns what the function's docstring says about leading dimensions, if anything."""
    return "leading dimensions broadcast, as in `jnp.matmul`" if plan.batched else ""


def overview(plan: MatmulPlan) -> str:
    """Returns what the docstring says about the batch, if there is one."""
    if not plan.batched:
        return ""
    where = "of the walk over tiles" if plan.persistent else "of the grid"
    return (
        f" The batch is a dimension {where}. An operand that lacks it, or has 1 there, "
        "is read in place for all of it."
    )


def _no_elements(plan: MatmulPlan) -> str:
    """Returns the sizes of which one may be 0."""
    sizes = ["m", "n", "k"] if plan.any_edge else []
    if not plan.batched:
        return f"({', '.join(sizes)})"
    return f"({', '.join(['*batch', *sizes])})" if sizes else "batch"


def _tiles(plan: MatmulPlan) -> dict[str, object]:
    """Returns how the tiles of all matrices are counted and found."""
    if not plan.batched:
        return {
            "all_tiles": "tiles[0] * tiles[1]",
            "tile_loop": "(num_tiles,)",
            "turns_loop": "(tiles[0] * tiles[1],)",
            "tile_in_matrix": "tile.index[0], tiles",
            "places": "rows, columns",
            "first_place": "",
            "place_words": "rows and columns",
        }
    loop = "(tiles[0], tiles[1] * tiles[2])"
    return {
        "all_tiles": "math.prod(tiles)",
        "tile_loop": loop,
        "turns_loop": loop,
        "tile_in_matrix": "index, tiles[1:]",
        "places": "batch, rows, columns",
        "first_place": "batch, ",
        "place_words": "matrix, rows and columns",
    }
