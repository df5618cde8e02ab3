"""What the matmul templates place where a kernel has gradients and an epilogue.

Such a kernel makes three products: the output with its epilogue, and without it the
gradients of A and B. What the epilogue reads is therefore one argument of the kernel, its
terms, and None for a plain product. What it stores is one argument, too: to differentiate
the epilogue takes the product, which is then stored beside the output.
"""

from kgen.emit import gmem, parameters
from kgen.emit.gradients import calls
from kgen.epilogue.steps import FLOAT32, with_argument
from kgen.layouts import is_transposed
from kgen.plan.model import MatmulPlan


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the values that such a kernel adds or changes, to come after all others'."""
    if not plan.differentiates_epilogue:
        return {
            "differentiates_epilogue": False,
            "lists_outputs": False,
            "stores_parts": False,
        }
    refs = gmem.argument_refs(plan)
    steps = with_argument(plan.epilogue)
    sliced = any(ref.axes for ref in refs)
    of_grad_a, of_grad_b = calls(plan)
    narrow = plan.out_dtype != FLOAT32
    return {
        "differentiates_epilogue": True,
        "lists_outputs": True,
        "stores_parts": True,
        "stores_pieces": False,
        # They are converted and checked before the function that has a rule is called.
        "scalars": [],
        "checks_here": False,
        "argument_lines": _argument_lines(plan),
        "terms_given": _tuple(_given(plan)),
        "term_names": _tuple([ref.name for ref in refs]),
        "term_parts": [ref.at("rows", "columns") for ref in refs],
        "slices_terms": sliced,
        "shares_terms": not sliced,
        "narrowed": ".astype(DTYPE)" if narrow else "",
        "wide_product": f"product{'.astype(jnp.float32)' * narrow}",
        "operand_names": repr(["a", "b", *(s.argument for s in steps)]),
        "of_grad_a": of_grad_a,
        "of_grad_b": of_grad_b,
    }


def _argument_lines(plan: MatmulPlan) -> list[str]:
    """Returns lines that convert and check what the epilogue takes."""
    steps = with_argument(plan.epilogue)
    if not steps:
        return []
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    m = f"a.shape[{1 if a_is_transposed else 0}]"
    n = f"b.shape[{0 if b_is_transposed else 1}]"
    scalars = [step.argument for step in steps if not step.axes]
    return [
        *(f"{name} = jnp.asarray({name}, jnp.float32)" for name in scalars),
        f"_check_arguments({parameters.checked(plan, m, n)})",
    ]


def _given(plan: MatmulPlan) -> list[str]:
    """Returns the terms as the kernel takes them: a scalar is an array of one element."""
    return [
        step.argument if step.axes else f"{step.argument}.reshape(1)"
        for step in with_argument(plan.epilogue)
    ]


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' * (len(names) == 1)})"
