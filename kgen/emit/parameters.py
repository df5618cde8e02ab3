"""What the templates place about one argument of an epilogue."""

from kgen.epilogue.steps import FLOAT32, Step, with_argument
from kgen.plan.model import MatmulPlan


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
