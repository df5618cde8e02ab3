"""What the templates place about the scales of blocks: arguments, refs and their parts."""

from kgen.float8 import SUM_BITS
from kgen.plan.model import MatmulPlan

NAMES = ("a_scale", "b_scale")


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the words, literals and named booleans of scales."""
    scaled = plan.scale_block is not None
    return {
        "scales_blocks": scaled,
        "adds_steps": plan.promote and not scaled,
        "scale_block": plan.scale_block,
        "scale_table": [
            f"{NAMES[0]}  float32[m, k / {plan.scale_block}]",
            f"{NAMES[1]}  float32[n / {plan.scale_block}, k / {plan.scale_block}]",
        ][: 2 * scaled],
        "scales": ", a_scale, b_scale" if scaled else "",
        "scale_tails": ", a_scale[:, -1:], b_scale[:, -1:]" if scaled else "",
        "scale_parameters": (
            ", a_scale: jax.Array, b_scale: jax.Array" if scaled else ""
        ),
        "step": _step(plan) if scaled else "_multiply",
        "a_scale_part": (
            "a_scale_gmem.at[_wg_rows(), ki]"
            if plan.num_compute_wgs > 1 and plan.split == "m"
            else "a_scale_gmem.at[:, ki]"
        ),
    }


def overview(plan: MatmulPlan) -> str:
    """Returns what the docstring says about how sums are promoted, if they are."""
    if plan.scale_block:
        return (
            " A step is a block of scales: its sum, multiplied with the scales of A's "
            "rows and of B's block, is added to a float32 total in registers."
        )
    if plan.promote:
        return (
            " The sum of every step is added to a float32 total in registers: within "
            f"the tensor cores sums of 8-bit floats keep about {SUM_BITS} bits."
        )
    return ""


def both_scaled(plan: MatmulPlan) -> str:
    """Returns what the function's docstring says about both operands, if anything."""
    return " multiplied with their scales" if plan.scale_block else ""


def refs(plan: MatmulPlan) -> tuple[str, ...]:
    """Returns the refs that a kernel has beside A's and B's."""
    return () if plan.scale_block is None else tuple(f"{n}_gmem" for n in NAMES)


def arguments(plan: MatmulPlan) -> tuple[str, ...]:
    """Returns the arguments that a module's function has beside A and B."""
    return () if plan.scale_block is None else NAMES


def _step(plan: MatmulPlan) -> str:
    """Returns the body of the pipeline with the scales of a tile."""
    parts = ", pl.ds(first, num_steps)" if plan.split_k > 1 else ""
    return (
        f"functools.partial(_multiply, a_scale_gmem.at[rows{parts}], "
        f"b_scale_gmem.at[n{parts}])"
    )
