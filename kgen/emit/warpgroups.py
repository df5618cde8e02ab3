"""What the matmul templates place about warpgroups: what each of them multiplies."""

from kgen.arch import ARCHS
from kgen.layouts import is_transposed
from kgen.plan.budget import compute_registers
from kgen.plan.model import MatmulPlan


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the registers, operands and part of a tile of a compute warpgroup."""
    shared = plan.num_compute_wgs > 1
    return {
        "splits_m": splits_m(plan),
        "splits_n": splits_n(plan),
        "num_compute_wgs": plan.num_compute_wgs,
        "compute_wgs_reason": _compute_wgs_reason(plan),
        "compute_registers": _compute_registers(plan),
        "memory_registers": plan.memory_registers,
        "others_share": (
            "the others share the rest" if shared else "the other takes the rest"
        ),
        "step_work": _step_work(plan),
        "wgmma_operands": _wgmma_operands(plan),
        "acc_shape": _acc_shape(plan),
    }


def _compute_registers(plan: MatmulPlan) -> int | None:
    """Returns what a compute warpgroup tells setmaxnreg; None if none loads for it."""
    if plan.memory_registers is None:
        return None
    arch, wgs = ARCHS[plan.arch], plan.num_compute_wgs
    return compute_registers(arch, plan.memory_registers, wgs)


def splits_m(plan: MatmulPlan) -> bool:
    """Whether several warpgroups split the rows of a tile."""
    return plan.num_compute_wgs > 1 and plan.split == "m"


def splits_n(plan: MatmulPlan) -> bool:
    """Whether several warpgroups split the columns of a tile."""
    return plan.num_compute_wgs > 1 and plan.split == "n"


def rows(plan: MatmulPlan) -> str:
    """Returns the rows of a tile that are one warpgroup's, as source."""
    return "WG_M" if splits_m(plan) else "TILE_M"


def columns(plan: MatmulPlan) -> str:
    """Returns the columns of a tile that are one warpgroup's, as source."""
    return "WG_N" if splits_n(plan) else "TILE_N"


def _compute_wgs_reason(plan: MatmulPlan) -> str:
    if plan.num_compute_wgs == 1:
        return "A single warpgroup multiplies."
    if plan.ping_pong:
        return "Compute warpgroups; they take turns, a tile each."
    dimension = "rows" if plan.split == "m" else "columns"
    return f"Compute warpgroups; they split the {dimension} of a tile."


def _step_work(plan: MatmulPlan) -> str:
    if plan.swap_operands:
        whose = "this warpgroup's" if splits_n(plan) else "all"
        return f"{whose} columns of B, as rows, times all rows of A"
    return {
        (True, False): "this warpgroup's rows of A times all of B's columns",
        (False, True): "all of A's rows times this warpgroup's columns of B",
        (False, False): "a tile of A times a tile of B",
    }[splits_m(plan), splits_n(plan)]


def _wgmma_operands(plan: MatmulPlan) -> str:
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    a, b = "a_smem", "b_smem"
    if splits_m(plan):
        a = f"a_smem.at[{':, ' * a_is_transposed}_wg_rows()]"
    if splits_n(plan):
        b = f"b_smem.at[{':, ' * (not b_is_transposed)}_wg_columns()]"
    if plan.swap_operands:
        return f"{b}{'.T' * (not b_is_transposed)}, {a}{'.T' * (not a_is_transposed)}"
    return f"{a}{'.T' * a_is_transposed}, {b}{'.T' * b_is_transposed}"


def _acc_shape(plan: MatmulPlan) -> str:
    sides = rows(plan), columns(plan)
    return f"({', '.join(reversed(sides) if plan.swap_operands else sides)})"
