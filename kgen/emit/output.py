"""What the matmul templates place about the output: its dtype, and how it lies in SMEM."""

from kgen.epilogue.steps import FLOAT32
from kgen.plan.model import MatmulPlan


def store_dtype(plan: MatmulPlan) -> str:
    """Returns the name of the dtype of what the kernel stores."""
    return "jnp.float32" if plan.split_k > 1 else dtype(plan)


def dtype(plan: MatmulPlan) -> str:
    """Returns the name of the result's dtype."""
    if plan.out_dtype == plan.operand_dtype:
        return "DTYPE"
    return "OUT_DTYPE" if has_own_dtype(plan) else "jnp.float32"


def has_own_dtype(plan: MatmulPlan) -> bool:
    """Whether a module names its result's dtype: float32 sums of parts of K have it."""
    summed = plan.split_k > 1 and plan.out_dtype == FLOAT32
    return plan.out_dtype != plan.operand_dtype and not summed


def transforms(plan: MatmulPlan) -> list[str]:
    """Returns the argument that says how the output lies in SMEM, if any is needed."""
    if plan.out_layout.swizzle is None:
        return []
    name = "OUT_TRANSFORMS" if has_own_transforms(plan) else "TRANSFORMS"
    return [f"transforms={name}"]


def has_own_transforms(plan: MatmulPlan) -> bool:
    """Whether the output lies in SMEM otherwise than A and B."""
    out = plan.out_layout
    return out.swizzle is not None and out != plan.operand_layout
