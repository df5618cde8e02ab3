"""What the templates place about an epilogue: words, and the functions that apply it."""

from collections.abc import Sequence

from kgen.emit import epilogue_steps, gmem, hardware, parameters
from kgen.emit.epilogue_steps import SAVED, in_kernel, reads_eights
from kgen.epilogue.formulas import formula
from kgen.epilogue.steps import (
    FLOAT32,
    TRANSCENDENTAL,
    Step,
    saves,
    with_argument,
    write,
)
from kgen.plan.model import MatmulPlan

# Steps by the helper function that they call in a kernel.
SIGMOID = frozenset({"sigmoid", "silu"})


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the words, literals and named booleans of an epilogue."""
    steps = plan.epilogue
    result, called = "jax.Array", "c"
    if saves(steps):
        result, called = "tuple[jax.Array, jax.Array]", f"c, {SAVED}"
    return {
        "has_epilogue": bool(steps),
        "epilogue_table": _table(steps),
        "called": called,
        "result_type": result,
        **parameters.view(plan),
        **epilogue_steps.view(plan),
        "applies_in_kernel": in_kernel(plan),
        "approximates": approximates(plan),
        "approximated": hardware.approximated(plan, {step.op for step in steps}),
        "epilogue_about": _overview(plan),
        **(_kernel(plan) if in_kernel(plan) else {}),
    }


def approximates(plan: MatmulPlan) -> bool:
    """Whether exponentials are the hardware's own."""
    used = any(step.op in TRANSCENDENTAL for step in plan.epilogue)
    return used and in_kernel(plan) and plan.out_dtype != FLOAT32


def apply(plan: MatmulPlan, value: str, columns: str | None) -> str:
    """Returns the call that makes the output of a part of the accumulator."""
    return f"_epilogue({', '.join([value, *gmem.parts(plan, columns)])})"


def chain(plan: MatmulPlan, product: str) -> str:
    """Returns a product in float32 with the epilogue in plain JAX applied."""
    names = [step.argument for step in with_argument(plan.epilogue)]
    return f"_finish({', '.join([product, *names])})"


def _kernel(plan: MatmulPlan) -> dict[str, object]:
    steps = plan.epilogue
    rows, columns = ("n", "m") if plan.swap_operands else ("m", "n")
    vectors = [step.axes for step in steps if len(step.axes) == 1]
    gelu = any(step.approximate == "tanh" for step in steps)
    return {
        "epilogue_refs": ", ".join(["", *gmem.names(plan)]),
        "reads_eights": reads_eights(plan),
        "has_row_vectors": rows in vectors,
        "has_column_vectors": columns in vectors and not reads_eights(plan),
        "has_gelu": gelu,
        "has_exact_gelu": any(step.approximate == "erf" for step in steps),
        "has_sigmoid": gelu or any(step.op in SIGMOID for step in steps),
        "makes": "the output and what is saved" if saves(steps) else "the output",
        "output_refs": ", ".join(ref.name for ref in gmem.outputs(plan)),
    }


def _overview(plan: MatmulPlan) -> str:
    what = "the sum" if plan.split_k > 1 else "the accumulator"
    return f"The epilogue makes the output of {what} x in float32, step by step:"


def _table(steps: Sequence[Step]) -> list[str]:
    written = [write(step) for step in steps]
    width = max(map(len, written), default=0)
    return [
        f"{text:{width}}  {formula(step)}"
        for text, step in zip(written, steps, strict=True)
    ]
