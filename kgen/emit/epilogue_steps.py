"""The steps of an epilogue as code: in a kernel, and in plain JAX."""

from collections.abc import Callable

from kgen.epilogue.formulas import added
from kgen.epilogue.steps import FLOAT32, Step, saves
from kgen.plan.model import MatmulPlan

FIRST_COLUMN, SAVED = "first_column", "saved"
# Steps by the helper functions that they call in a kernel.
GELUS = {"tanh": "_gelu(x)", "erf": "_exact_gelu(x)"}


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the lines of the functions that apply an epilogue, and what they return."""
    plain = _ended("chain_lines", "last_of_chain", _chain(plan, _plain), _result(plan))
    if not in_kernel(plan):
        return plain
    lines = _chain(plan, _in_registers)
    return {**plain, **_ended("step_lines", "last_of_steps", lines, _result(plan))}


def in_kernel(plan: MatmulPlan) -> bool:
    """Whether the kernel applies the epilogue: not to parts of a sum."""
    return bool(plan.epilogue) and plan.split_k == 1


def reads_eights(plan: MatmulPlan, axes: str = "n") -> bool:
    """Whether the epilogue reads vectors with an element per column by eights.

    So many lie side by side in the registers of a product. Then nothing is read beyond
    their end, though the last tile is not full, and they need no padding to a tile.

    Args:
      plan: The plan.
      axes: Dimensions of the output that an argument has.
    """
    made = in_kernel(plan) and not plan.differentiates_epilogue
    if not made or not plan.any_edge or plan.swap_operands:
        return False
    return axes == "n" and any(step.axes == "n" for step in plan.epilogue)


def spread(plan: MatmulPlan, step: Step, argument: str) -> str:
    """Returns an argument in a shape that broadcasts over the product, as source."""
    if not plan.batched:
        return f"{argument}[:, None]" if step.axes == "m" else argument
    index = {"m": "..., None", "n": "..., None, :", "": "..., None, None"}
    found = index.get(step.axes if argument else "mn")
    return f"{argument}[{found}]" if found else argument


def _chain(
    plan: MatmulPlan, write_step: Callable[[MatmulPlan, Step], list[str]]
) -> list[str]:
    return [line for step in plan.epilogue for line in write_step(plan, step)]


def _ended(
    lines_name: str, last_name: str, lines: list[str], result: str
) -> dict[str, object]:
    """Returns the lines before a function's return, and what that returns."""
    if result == "x" and lines:
        *lines, last = lines
        result = last.removeprefix("x = ")
    return {lines_name: lines, last_name: result}


def _result(plan: MatmulPlan) -> str:
    cast = _cast(plan)
    return f"x{cast}, {SAVED}" if saves(plan.epilogue) else f"x{cast}"


def _cast(plan: MatmulPlan) -> str:
    if plan.out_dtype == FLOAT32:
        return ""
    own = plan.out_dtype != plan.operand_dtype
    return f".astype({'OUT_DTYPE' if own else 'DTYPE'})"


def _in_registers(plan: MatmulPlan, step: Step) -> list[str]:
    """Returns a step as code of a kernel, where x is a part of the accumulator."""
    ref = f"{step.argument}_gmem"
    if step.op == "residual":
        layout = "layout=plgpu.Layout.WGMMA, optimized=False"
        return [
            f"{step.argument} = plgpu.load({ref}, {layout})",
            f"x = x {_added(step)}",
        ]
    vector = step.argument
    if step.axes:
        is_row = step.axes == ("n" if plan.swap_operands else "m")
        vector = _per_row(ref) if is_row else _per_column(plan, ref)
    elif step.argument:
        vector = f"{ref}[0]"
    return _step(
        plan, step, vector, sigmoid="_sigmoid(x)", gelu=GELUS.get(step.approximate, "")
    )


def _per_row(ref: str) -> str:
    return f"_per_row({ref}, x.shape)"


def _per_column(plan: MatmulPlan, ref: str) -> str:
    first = f"{FIRST_COLUMN}, " * reads_eights(plan)
    return f"_per_column({ref}, {first}x.shape)"


def _plain(plan: MatmulPlan, step: Step) -> list[str]:
    """Returns a step in plain JAX, where x is the whole product in float32."""
    if step.op == "residual":
        return [f"x = x {_added(step)}"]
    argument = step.argument
    if argument and plan.batched and not step.axes:
        argument = f"jnp.asarray({argument})"  # It may be a number.
    vector = spread(plan, step, argument)
    gelu = f"jax.nn.gelu(x, approximate={step.approximate == 'tanh'})"
    return _step(plan, step, vector, sigmoid="jax.nn.sigmoid(x)", gelu=gelu)


def _added(step: Step) -> str:
    # A constant alone would leave a narrow dtype as narrow as it is.
    narrow = step.dtype != FLOAT32 and step.value not in (None, 1.0, -1.0)
    return added(step, f"{step.argument}{'.astype(jnp.float32)' * narrow}")


def _step(
    plan: MatmulPlan, step: Step, vector: str, *, sigmoid: str, gelu: str
) -> list[str]:
    value = repr(step.value)
    match step.op:
        case "scale" | "scale_rows" | "scale_columns":
            line = f"x = x * {vector or value}"
        case "bias":
            line = f"x = x + {vector}"
        case "relu":
            line = "x = jnp.maximum(x, 0)"
        case "gelu":
            line = f"x = {gelu}"
        case "silu":
            line = f"x = x * {sigmoid}"
        case "sigmoid":
            line = f"x = {sigmoid}"
        case "tanh":
            line = "x = jnp.tanh(x)"
        case "softcap":
            line = f"x = {value} * jnp.tanh(x * (1 / {value}))"
        case "clamp":
            line = f"x = {_clamp(step)}"
        case "cast":
            line = f"x = x.astype(jnp.{step.dtype}).astype(jnp.float32)"
        case "save":
            line = f"{SAVED} = x{_cast(plan)}"
        case other:
            raise ValueError(f"no step of an epilogue is called {other!r}")
    return [line]


def _clamp(step: Step) -> str:
    text = "x" if step.low is None else f"jnp.maximum(x, {step.low!r})"
    return text if step.high is None else f"jnp.minimum({text}, {step.high!r})"
