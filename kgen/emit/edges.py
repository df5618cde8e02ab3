"""What the matmul templates place about sizes that are no multiples of a tile."""

from kgen.emit import batches, gradients, least, scales
from kgen.emit.operands import out_dims
from kgen.layouts import operand_dims
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import MatmulPlan

ROW_BYTES = 16


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns words about sizes, and what pads and cuts off around the kernel."""
    m, n, k = plan.blocks
    a_dims, b_dims = operand_dims(plan.layout)
    # What is not looked at has no name.
    m_name = "_" if plan.any_edge and plan.raster is not None else "m"
    n_name = "_" if plan.any_edge else "n"
    out_tiling = plan.out_layout.tiling or (1, ROW_BYTES // ITEMSIZE[plan.store_dtype])
    return {
        "any_edge": plan.any_edge,
        "exact_edge": not plan.any_edge,
        "sizes_of_a": (
            "any m and k" if plan.any_edge else f"m a multiple of {m}, k of {k}"
        ),
        "sizes_of_b": "any n" if plan.any_edge else f"n a multiple of {n}",
        "argument_a": "" if plan.any_edge else f", m a multiple of {m} and k of {k}",
        "argument_b": "" if plan.any_edge else f", n a multiple of {n}",
        "tiling": plan.operand_layout.tiling,
        **least.view(plan),
        "has_own_out_tiling": plan.any_edge and plan.out_layout != plan.operand_layout,
        "out_tiling": out_tiling,
        "out_tiling_reason": (
            "The output lies in plain rows, multiples of 16 bytes."
            if plan.out_layout.tiling is None
            else "The output has other tiles in SMEM."
        ),
        "checked_a": f"({a_dims})".replace("m", m_name),
        "checked_b": "({})".format(b_dims.replace("n", n_name).replace("k", "b_k")),
    }


def count(plan: MatmulPlan, size: str, block: str) -> str:
    """Returns how many blocks there are along a size, as source."""
    return f"pl.cdiv({size}, {block})" if plan.any_edge else f"{size} // {_atom(block)}"


def result(plan: MatmulPlan, cast: str) -> str:
    """Returns the call of the kernel, and what is done with what it returns."""
    parts = ".sum(axis=0)" if plan.split_k > 1 else ""
    if not plan.any_edge:
        called = gradients.call(plan, "a", "b", *scales.arguments(plan))
        return batches.reshaped(plan, f"{called}{parts}{cast}")
    called = gradients.call(plan, *least.padded_operands(plan))
    return batches.reshaped(plan, f"{called}{parts}{cut(plan)}{cast}")


def cut(plan: MatmulPlan) -> str:
    """Returns the index of what is no padding, as source."""
    if not plan.any_edge:
        return ""
    part = batches.in_batch(plan, out_dims(plan, ":m", ":n"), ":")
    return f"[{part.strip('()')}]"


def out_shape(plan: MatmulPlan, store_dtype: str) -> str:
    """Returns the shape of what the kernel stores, as source."""
    shape = out_dims(plan, "m", "n")
    first = ["SPLIT_K"] if plan.split_k > 1 else ["num_matrices"] * plan.batched
    if plan.any_edge:
        tiling = "TILING" if plan.out_layout == plan.operand_layout else "OUT_TILING"
        at_least = least.of_output(plan)
        padded = f"_padded({shape}, {store_dtype}, {tiling}{at_least})"
        return f"({first[0]}, *{padded})" if first else padded
    return shape.replace("(", f"({first[0]}, ", 1) if first else shape


def _atom(block: str) -> str:
    return f"({block})" if " " in block else block
