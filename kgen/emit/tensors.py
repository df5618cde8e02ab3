"""What the matmul templates place about PyTorch tensors."""

from kgen.emit import scales
from kgen.emit.literals import docstring_text
from kgen.epilogue.steps import with_argument
from kgen.plan.model import MatmulPlan

ABOUT = (
    "`matmul_torch` does the same with PyTorch tensors. The verification of this module "
    "does not cover it."
)


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the tensors that the module's function for PyTorch takes, by name."""
    steps = [step.argument for step in with_argument(plan.epilogue)]
    names = ["a", "b", *scales.arguments(plan), *steps]
    return {
        "takes_tensors": plan.torch,
        "tensors_about": docstring_text(ABOUT),
        "tensors": ", ".join(names),
        "named_tensors": ", ".join(f'("{name}", {name})' for name in names),
    }
