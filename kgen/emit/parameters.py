"""What the templates place about the arguments of an epilogue: types, shapes, checks."""

from kgen.emit import scales
from kgen.emit.epilogue_steps import SAVED, in_kernel
from kgen.epilogue.steps import FLOAT32, Step, saves, with_argument
from kgen.layouts import is_transposed
from kgen.plan.model import MatmulPlan


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns what the function takes for an epilogue, and how it is checked."""
    arguments = with_argument(plan.epilogue)
    listed = ", ".join(["", *(step.argument for step in arguments)])
    return {
        **_tables(plan),
        "arguments": listed,
        "chain_arguments": listed,
        "argument_parameters": ", ".join(
            ["", *(f"{step.argument}: {annotation(step)}" for step in arguments)]
        ),
        "argument_docs": [
            f"{step.argument}: {about(plan, step)}." for step in arguments
        ],
        "has_arguments": bool(arguments),
        "has_several_arguments": len(arguments) > 1,
        "only_argument_check": (
            checks(plan, arguments[0]) if len(arguments) == 1 else []
        ),
        "pads_arguments": plan.any_edge
        and in_kernel(plan)
        and any(step.axes for step in arguments),
        "argument_checks": [
            (
                f'"{step.argument}"',
                step.argument,
                shape(step),
                f"jnp.{step.dtype}",
            )
            for step in arguments
        ],
        **_of_batch(plan),
    }


def _tables(plan: MatmulPlan) -> dict[str, object]:
    """Returns the rows of arguments and results in the docstring of a module."""
    arguments = with_argument(plan.epilogue)
    saved = [SAVED] * saves(plan.epilogue)
    names = [step.argument for step in arguments]
    width = max(map(len, [*names, *scales.arguments(plan), "out", *saved]))
    return {
        "gap": " " * (width - len("out")),
        "argument_table": [
            f"{step.argument:{width}}  {step.dtype}{dimensions(plan, step)}"
            for step in arguments
        ],
        "saved_table": [
            f"{name:{width}}  {plan.out_dtype}[{'..., ' * plan.batched}m, n]    "
            "x at save(), see below"
            for name in saved
        ],
    }


def dimensions(plan: MatmulPlan, step: Step) -> str:
    """Returns the dimensions of an argument, such as `[m, n]`."""
    return f"[{', '.join([*['...'] * plan.batched, *step.axes])}]"


def shape(step: Step) -> str:
    """Returns the shape of an argument behind its batch, as source."""
    return f"({', '.join(step.axes)}{',' * (len(step.axes) == 1)})"


def checked(plan: MatmulPlan, m: str = "m", n: str = "n") -> str:
    """Returns what is checked: the arguments, after what tells their sizes.

    Args:
      plan: The plan.
      m: Rows of the product, as source.
      n: Its columns.
    """
    steps = with_argument(plan.epilogue)
    axes = "".join(step.axes for step in steps)
    sizes = [size for axis, size in (("m", m), ("n", n)) if axis in axes]
    of_c = ["a", "b"] if plan.batched else sizes
    return ", ".join([*of_c, *(step.argument for step in steps)])


def checks(plan: MatmulPlan, step: Step) -> list[str]:
    """Returns lines that check an argument's shape and dtype."""
    name, found = step.argument, f"{step.argument}.shape"
    needed = "".join(f"{{{axis}}}, " for axis in step.axes)
    needed = f"({needed.removesuffix(' ' if len(step.axes) == 1 else ', ')})"
    behind = " behind its batch" if plan.batched else ""
    own = f"jax.typeof({name}).shape{f'[-{len(step.axes)}:]' * plan.batched}"
    of_shape = [
        f"if {own} != {shape(step)}:",
        f'    raise ValueError(f"{name} must have shape {needed}{behind}, '
        f'got {{{found}}}")',
    ]
    return [
        # Whatever a number's dimensions are, they are those of a batch.
        *(of_shape if step.axes or not plan.batched else []),
        f"if {name}.dtype != jnp.{step.dtype}:",
        f'    raise ValueError(f"{name} must be {step.dtype}, got {{{name}.dtype}}")',
    ]


def annotation(step: Step) -> str:
    """Returns the type of an argument, as source."""
    return "jax.Array" if step.axes else "jax.typing.ArrayLike"


def about(plan: MatmulPlan, step: Step) -> str:
    """Returns what the docstring of the function says about an argument."""
    words = {
        "scale": "a scalar that the product is multiplied by",
        "scale_rows": "what each row is multiplied by",
        "scale_columns": "what each column is multiplied by",
        "bias": f"what is added to each {'row' if step.along == 'm' else 'column'}",
        "residual": _about_residual(step),
    }
    has_dimensions = step.axes or plan.batched
    kind = f"{step.dtype}{dimensions(plan, step)}" if has_dimensions else FLOAT32
    return f"{kind}, {words[step.op]}"


def _about_residual(step: Step) -> str:
    beta = 1.0 if step.value is None else step.value
    factor = "" if abs(beta) == 1 else f", times {abs(beta)!r}"
    return f"what is {'subtracted' if beta < 0 else 'added'}{factor}"


def _of_batch(plan: MatmulPlan) -> dict[str, object]:
    """Returns how arguments are checked, and how those of a batch are stacked."""
    arguments = with_argument(plan.epilogue)
    scalars = [step.argument for step in arguments if not step.axes]
    stacked = [
        (
            (step.argument, step.argument, len(step.axes))
            if step.axes
            else (step.argument, f"{step.argument}[..., None]", 1)
        )
        for step in arguments
    ]
    batched = plan.batched
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    lengths = {
        "m": f"a.shape[{-1 if a_is_transposed else -2}]",
        "n": f"b.shape[{-2 if b_is_transposed else -1}]",
    }
    used = [axis for axis in "mn" if any(axis in step.axes for step in arguments)]
    return {
        "scalars": [] if batched else scalars,
        "batched_scalars": scalars,
        "stacked": stacked if batched else [],
        "checks_here": bool(arguments) and not batched,
        "has_ranks": bool(arguments) and batched,
        "takes_two": not arguments,
        "ranks": repr((2, 2, *(len(step.axes) for step in arguments))),
        "argument_batches": "".join(
            f", {step.argument}.shape{_leading(step)}" for step in arguments
        ),
        "mapped_operands": "*operands" if arguments else "a, b",
        "out_is_mapped": "(True, True)" if saves(plan.epilogue) else "True",
        "matrix_is": (
            "Returns what an operand has for one of the batch, or for all of it."
            if arguments
            else "Returns the matrix for one of the batch, or the one for all of it."
        ),
        "checked": checked(plan),
        "measures_c": batched and bool(used),
        "sizes_of_c": f"{', '.join(used)} = {', '.join(lengths[x] for x in used)}",
        "other_shape": (
            "jax.typeof(argument).shape[argument.ndim - len(shape) :] != shape"
            if batched
            else "jax.typeof(argument).shape != shape"
        ),
        "behind_batch": " behind its batch" if batched else "",
    }


def _leading(step: Step) -> str:
    """Returns what takes the leading dimensions of an argument's shape, as source."""
    return f"[:-{len(step.axes)}]" if step.axes else ""
