"""What a module says that it returns: a formula of the product and of its epilogue."""

import dataclasses
from collections.abc import Callable

from kgen.emit import batches, epilogue_steps, parameters, scales
from kgen.emit.literals import LINE_LENGTH
from kgen.epilogue.formulas import added, clamped
from kgen.epilogue.steps import Step, saves
from kgen.plan.model import MatmulPlan

LONGEST = LINE_LENGTH - len('    """Returns .')
"""Characters of what fits into the first line of a function's docstring."""


@dataclasses.dataclass(frozen=True)
class _Formula:
    """A formula of x, as far as steps have been applied.

    Attributes:
      text: It.
      is_factor: Whether it may be multiplied as it is, without brackets.
      saved: The formula of what is saved, if anything is.
    """

    text: str
    is_factor: bool = False
    saved: str = ""

    @property
    def factor(self) -> str:
        return self.text if self.is_factor else f"({self.text})"


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns what the function's docstring says of the result."""
    scaled, batch = scales.both_scaled(plan), batches.broadcast(plan)
    if plan.epilogue:
        return {
            "returned": _of_epilogue(plan),
            # Behind a formula it would not be plain what these words belong to.
            "returned_details": [
                *(["", f"A and B are{scaled}."] if scaled else []),
                *(["", f"{batch.capitalize()}."] if batch else []),
            ],
        }
    details = [f", both{scaled}" * bool(scaled), f"; {batch}" * bool(batch)]
    return {
        "returned": batches.product(plan) + "".join(details),
        "returned_details": [],
    }


def headline(plan: MatmulPlan) -> str:
    """Returns the formula of the result, with the dimensions as they lie in memory."""
    result, _, product = batches.formula(plan).partition(" = ")
    if not plan.epilogue:
        return f"{result} = {product}"
    found = _formula(plan, product, lambda step: _indexed(plan, step))
    text = f"{result} = {found.text}"
    if found.saved:
        text += f" and x = {found.saved}"
    if len(text) > LINE_LENGTH:
        return f"{result} = {product} with an epilogue,"
    return text


def _of_epilogue(plan: MatmulPlan) -> str:
    product = batches.product(plan)
    found = _formula(
        plan, product, lambda step: epilogue_steps.spread(plan, step, step.argument)
    )
    *most, last = (step.op for step in plan.epilogue)
    steps = f"{', '.join(most)} and {last}" if most else last
    texts = [
        found.text,
        f"{product} after {steps}",
        f"what the epilogue makes of {product}",
    ]
    if saves(plan.epilogue):
        texts = [
            f"the tuple ({found.text}, x) with x = {found.saved}",
            f"the tuple (out, saved) that the epilogue makes of {product}",
        ]
    return next((text for text in texts if len(text) <= LONGEST), texts[-1])


def _formula(plan: MatmulPlan, product: str, name: Callable[[Step], str]) -> _Formula:
    """Returns the formula of a product's epilogue.

    Args:
      plan: The plan.
      product: The formula of the product.
      name: Returns how a step's argument is written.
    """
    found = _Formula(product)
    for step in plan.epilogue:
        found = _applied(found, step, name(step) if step.argument else "")
    return found


def _applied(x: _Formula, step: Step, argument: str) -> _Formula:
    match step.op:
        case "save":
            return _Formula("x", is_factor=True, saved=x.text)
        case "scale" | "scale_rows":
            text = f"{argument or repr(step.value)} * {x.factor}"
        case "scale_columns":
            text = f"{x.factor} * {argument}"
        case "bias":
            text = f"{x.text} + {argument}"
        case "residual":
            text = f"{x.text} {added(step, argument)}"
        case "clamp":
            text = clamped(step, x.text)
        case "softcap":
            text = f"softcap({x.text}, {step.value!r})"
        case "cast":
            text = f"{step.dtype}({x.text})"
        case activation:
            text = f"{activation}({x.text})"
    is_sum = step.op in ("bias", "residual")
    return dataclasses.replace(x, text=text, is_factor=not is_sum)


def _indexed(plan: MatmulPlan, step: Step) -> str:
    """Returns an argument with its dimensions."""
    has_dimensions = step.axes or plan.batched
    return step.argument + (parameters.dimensions(plan, step) if has_dimensions else "")
