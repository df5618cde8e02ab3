"""What the template of a matmul's standalone test places about an epilogue."""

import textwrap

from kgen.emit import epilogue_steps, hardware, scales
from kgen.emit.literals import LINE_LENGTH
from kgen.epilogue.formulas import added
from kgen.epilogue.steps import FLOAT32, TRANSCENDENTAL, Step, saves, with_argument
from kgen.plan.dtypes import PRECISION
from kgen.plan.model import MatmulPlan

COMMENT_WIDTH = LINE_LENGTH - len("        # ")
LARGEST_CONSTANT, FINEST_CONSTANT = 2.0**8, 2.0**-8
"""Constants in between, and multiples of the latter, keep small integers exact."""
ACTIVATIONS = {
    "relu": "np.maximum(x, 0)",
    "silu": "x / (1 + np.exp(-x))",
    "sigmoid": "1 / (1 + np.exp(-x))",
    "tanh": "np.tanh(x)",
}
GELUS = {
    "tanh": "x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))",
    "erf": "x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5))",
}


def view(plan: MatmulPlan, tolerance: str, reason: str) -> dict[str, object]:
    """Returns the values about an epilogue.

    Args:
      plan: The plan.
      tolerance: How far off a product may be, in `expected`, `size` and `a`.
      reason: Why.
    """
    steps = plan.epilogue
    normal = "normal" in plan.test.inputs
    exact = can_be_exact(plan)
    erf = any(step.approximate == "erf" for step in steps)
    on_integers_exact = plan.test.exact and exact
    output_reason, output_tolerance = _output_tolerance(plan)
    return {
        "is_product": not steps,
        "standard_imports": "\n".join(
            f"import {name}"
            for name in (
                *(["functools"] if plan.batched or plan.test.gradients else []),
                *(["math"] if erf else []),
                "os",
            )
        ),
        "and_arguments": _and_arguments(plan),
        "drawn_arguments": _drawn_arguments(plan),
        "takes_more": bool(_names(plan)),
        "shrinks": any(step.op in (*TRANSCENDENTAL, "clamp") for step in steps),
        "drawn_for": _drawn_for(plan),
        "argument_draws": [_draw(plan, step) for step in _arguments(plan)],
        "argument_indices": repr(
            [
                (index + 2, name)
                for index, name in enumerate(_names(plan))
                if not (plan.batched and name in _scalars(plan))
            ]
        ),
        "drawn_as": operands(plan).removeprefix("*"),
        "operands": operands(plan),
        "nothing": ", None" * len(_names(plan)),
        "of_reference": "exact" if exact and plan.test.exact else "close",
        "numpy_lines": [_numpy(plan, step) for step in steps],
        "numpy_result": "x, saved" if saves(steps) else "(x,)",
        "compares_epilogue_exactly": bool(steps) and on_integers_exact,
        "compares_epilogue_closely": bool(steps) and (normal or not on_integers_exact),
        "total_reason": _wrapped(f"The product: {_after(reason)}", 4),
        "total_tolerance": tolerance.partition(" + ")[2].replace("expected", "total"),
        "output_reason": _wrapped(output_reason, 8),
        "output_tolerance": output_tolerance,
    }


def operands(plan: MatmulPlan) -> str:
    """Returns the operands as a test passes them on."""
    return "*operands" if plan.epilogue or scales.arguments(plan) else "a, b"


def can_be_exact(plan: MatmulPlan) -> bool:
    """Whether small integers go through the epilogue without being rounded."""
    return all(
        step.op not in TRANSCENDENTAL
        and all(map(_keeps_exact, (step.value, step.low, step.high)))
        for step in plan.epilogue
    )


def _keeps_exact(constant: float | None) -> bool:
    if constant is None:
        return True
    return abs(constant) <= LARGEST_CONSTANT and constant % FINEST_CONSTANT == 0


def _arguments(plan: MatmulPlan) -> tuple[Step, ...]:
    return with_argument(plan.epilogue)


def _names(plan: MatmulPlan) -> tuple[str, ...]:
    """Returns the names of all arguments beside A and B."""
    return *scales.arguments(plan), *(step.argument for step in _arguments(plan))


def _scalars(plan: MatmulPlan) -> set[str]:
    """Returns the arguments that have no dimensions but those of a batch."""
    return {step.argument for step in _arguments(plan) if not step.axes}


def _and_arguments(plan: MatmulPlan) -> str:
    more = [
        *(["their scales"] if scales.arguments(plan) else []),
        *(["what the epilogue takes"] if _arguments(plan) else []),
    ]
    return f", and {' and '.join(more)}" if more else ""


def _drawn_arguments(plan: MatmulPlan) -> str:
    of_blocks = ", *draw_scales(rng, m, n, k)" if scales.arguments(plan) else ""
    more = f", *draw_arguments({_drawn_for(plan)})" if _arguments(plan) else ""
    return of_blocks + more


def _drawn_for(plan: MatmulPlan) -> str:
    """Returns what the arguments of an epilogue are drawn from and for."""
    axes = "".join(step.axes for step in _arguments(plan))
    sampled = any(not _is_scale(step) for step in _arguments(plan))
    return ", ".join(
        [
            "rng",
            *["b_batch"] * plan.batched,
            *(axis for axis in "mn" if axis in axes),
            *["sample"] * sampled,
        ]
    )


def _is_scale(step: Step) -> bool:
    return step.op.startswith("scale")


def _after(reason: str) -> str:
    """Returns what a tolerance's reason says beside the rounding of the result."""
    return reason.partition(", and ")[2].replace(" before that", "")


def _output_tolerance(plan: MatmulPlan) -> tuple[str, str]:
    """Returns why and by how much an output may be off beside its product."""
    steps, rtol = plan.epilogue, plan.test.rtol
    relative = f"2.0**-{PRECISION[plan.out_dtype]}" if rtol is None else repr(rtol)
    reason = f"Rounding to {plan.out_dtype}" if rtol is None else f"rtol = {rtol!r}"
    others = ["2.0**-20 * (10 + np.abs(total))"]
    reason += ", and the steps' own in float32"
    if any(step.op in hardware.TANH for step in steps) and plan.out_dtype != FLOAT32:
        others.append("2.0**-10 * np.abs(expected)")
        reason += "; the hardware's tanh has 11 bits"
    if any(step.op == "cast" for step in steps):
        narrow = max(
            2.0 ** -PRECISION[step.dtype] for step in steps if step.op == "cast"
        )
        others.append(f"{2 * narrow!r} * (1 + np.abs(expected))")
        reason += "; a cast may go to either neighbour"
    return f"{reason}.", " + ".join([f"{relative} * np.abs(expected)", *others])


def _wrapped(reason: str, indent: int) -> str:
    lines = textwrap.wrap(reason, COMMENT_WIDTH)
    return f"\n{' ' * indent}# ".join(lines)


def _draw(plan: MatmulPlan, step: Step) -> str:
    sizes = [*["*b_batch"] * plan.batched, *step.axes]
    shape = f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"
    if _is_scale(step):
        return f"jnp.asarray(2.0 ** rng.integers(-1, 2, {shape}), jnp.{step.dtype})"
    return f"jnp.asarray(sample(rng, {shape}), jnp.{step.dtype})"


def _numpy(plan: MatmulPlan, step: Step) -> str:
    """Returns a step in numpy, where x is float64."""
    value = repr(step.value)
    array = f"np.asarray({step.argument}, np.float64)" if step.argument else ""
    argument = epilogue_steps.spread(plan, step, array)
    match step.op:
        case "scale" | "scale_rows" | "scale_columns":
            text = f"x * {argument if step.argument else value}"
        case "bias":
            text = f"x + {argument}"
        case "residual":
            text = f"x {added(step, argument)}"
        case op if op in ACTIVATIONS:
            text = ACTIVATIONS[op]
        case "gelu":
            text = GELUS[step.approximate]
        case "softcap":
            text = f"{value} * np.tanh(x / {value})"
        case "clamp":
            low = "x" if step.low is None else f"np.maximum(x, {step.low!r})"
            high = "" if step.high is None else repr(step.high)
            text = f"np.minimum({low}, {high})" if high else low
        case "cast":
            text = f"x.astype(jnp.{step.dtype}).astype(np.float64)"
        case _:
            return "saved = x"
    return f"x = {text}"
