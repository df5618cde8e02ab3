"""The call of a kernel with an epilogue: its operands, and what pads them."""

from collections.abc import Mapping

from kgen.emit import gradients, least, scales
from kgen.emit.epilogue_steps import in_kernel, reads_eights
from kgen.epilogue.steps import Step, with_argument
from kgen.plan.model import MatmulPlan


def of_kernel(plan: MatmulPlan, blocks: Mapping[str, str]) -> str:
    """Returns the call of the kernel with all that it takes.

    Args:
      plan: The plan.
      blocks: What the kernel reads at once along `m` and `n`, as source.
    """
    if _names_operands(plan):
        return gradients.call(plan, "*operands")
    return gradients.call(plan, *_operands(plan, blocks))


def operands_line(plan: MatmulPlan, blocks: Mapping[str, str]) -> str:
    """Returns the line that names what the kernel takes, where it is much; else nothing."""
    if not _names_operands(plan):
        return ""
    return f"operands = {', '.join(_operands(plan, blocks))}"


def _names_operands(plan: MatmulPlan) -> bool:
    padded = [s for s in with_argument(plan.epilogue) if s.axes] * plan.any_edge
    return len(padded) > 1 and in_kernel(plan) and not plan.autodiff


def _operands(plan: MatmulPlan, blocks: Mapping[str, str]) -> list[str]:
    operands = [*least.padded_operands(plan)] if plan.any_edge else ["a", "b"]
    operands += scales.arguments(plan)
    if plan.differentiates_epilogue:
        operands.append("terms")
    elif in_kernel(plan):
        operands += [_given(plan, s, blocks) for s in with_argument(plan.epilogue)]
    return operands


def _given(plan: MatmulPlan, step: Step, blocks: Mapping[str, str]) -> str:
    """Returns a step's argument as the kernel takes it."""
    if not step.axes:
        return step.argument if plan.batched else f"{step.argument}.reshape(1)"
    if not plan.any_edge:
        return step.argument
    units = ["8"] if reads_eights(plan, step.axes) else [blocks[a] for a in step.axes]
    sides = [*["1"] * plan.batched, *units]
    return f"_whole({', '.join([step.argument, *sides])})"
