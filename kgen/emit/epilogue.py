"""What the templates place about an epilogue: arguments, refs and the steps as code."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from kgen.emit import gradients, hardware, least, parameters, scales
from kgen.epilogue.formulas import added, formula
from kgen.epilogue.steps import (
    FLOAT32,
    TRANSCENDENTAL,
    Step,
    saves,
    with_argument,
    write,
)
from kgen.layouts import is_transposed
from kgen.plan.model import MatmulPlan

# Steps by the helper functions that they call in a kernel.
SIGMOID = frozenset({"sigmoid", "silu"})
GELUS = {"tanh": "_gelu(x)", "erf": "_exact_gelu(x)"}
SAVED = "saved"
OUTS, TERMS = "outs_gmem", "terms_gmem"
"""What a kernel stores and what its epilogue reads, where both differ from call to call."""
WHOLE = "slice(None)"
TABLE_GAP = 4
"""Blanks between the name `a` and its dtype in a docstring without an epilogue."""


@dataclasses.dataclass(frozen=True)
class Ref:
    """A ref in GMEM that goes down to where a piece of the output is made.

    Attributes:
      name: Its name.
      axes: Dimensions of the output that it has: `m`, `n`, `mn` or none.
    """

    name: str
    axes: str

    def at(self, rows: str | None, columns: str | None, batch: str = "") -> str:
        """Returns the ref's part in some rows and columns of the output.

        Args:
          rows: The rows; None for all.
          columns: The columns; None for all.
          batch: Index of the matrix of which they are, if the ref has several.
        """
        whole = ":" if "m" in self.axes else ""
        m = (rows or whole) if "m" in self.axes else ""
        n = (columns or "") if "n" in self.axes else ""
        index = ", ".join(filter(None, [batch, m, n]))
        return self.name if index in ("", ":") else f"{self.name}.at[{index}]"


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the words, literals and named booleans of an epilogue."""
    steps = plan.epilogue
    arguments = with_argument(steps)
    names = [step.argument for step in arguments]
    inside = in_kernel(plan)
    saved = [SAVED] * saves(steps)
    width = max(map(len, [*names, *scales.arguments(plan), "out", *saved]))
    result = "jax.Array"
    called = "c"
    if saves(steps):
        result, called = "tuple[jax.Array, jax.Array]", f"c, {SAVED}"
    listed = ["", *names]
    return {
        "has_epilogue": bool(steps),
        "gap": " " * (width - len("out")),
        "argument_table": [
            f"{step.argument:{width}}  {step.dtype}{parameters.dimensions(plan, step)}"
            for step in arguments
        ],
        "saved_table": [
            f"{name:{width}}  {plan.out_dtype}[{'..., ' * plan.batched}m, n]    "
            "x at save(), see below"
            for name in saved
        ],
        "epilogue_table": _table(steps),
        "called": called,
        "arguments": ", ".join(listed),
        "argument_parameters": ", ".join(
            [
                "",
                *(
                    f"{step.argument}: {parameters.annotation(step)}"
                    for step in arguments
                ),
            ]
        ),
        "argument_docs": [
            f"{step.argument}: {parameters.about(plan, step)}." for step in arguments
        ],
        "result_type": result,
        **_of_batch(plan),
        "has_arguments": bool(arguments),
        "has_several_arguments": len(arguments) > 1,
        "only_argument_check": (
            parameters.checks(plan, arguments[0]) if len(arguments) == 1 else []
        ),
        "pads_arguments": plan.any_edge and inside and any(s.axes for s in arguments),
        "argument_checks": [
            (
                f'"{step.argument}"',
                step.argument,
                parameters.shape(step),
                f"jnp.{step.dtype}",
            )
            for step in arguments
        ],
        **_ended("chain_lines", "last_of_chain", _chain(plan, _plain), _result(plan)),
        "chain_arguments": ", ".join(listed),
        "applies_in_kernel": inside,
        "approximates": approximates(plan),
        "approximated": hardware.approximated(plan, {step.op for step in steps}),
        "epilogue_about": _overview(plan),
        **(_kernel(plan) if inside else {}),
    }


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
        "checked": parameters.checked(plan),
        "measures_c": batched and bool(used),
        "sizes_of_c": f"{', '.join(used)} = {', '.join(lengths[x] for x in used)}",
        "other_shape": (
            "jax.typeof(argument).shape[argument.ndim - len(shape) :] != shape"
            if batched
            else "jax.typeof(argument).shape != shape"
        ),
        "behind_batch": " behind its batch" if batched else "",
    }


def in_kernel(plan: MatmulPlan) -> bool:
    """Whether the kernel applies the epilogue: not to parts of a sum."""
    return bool(plan.epilogue) and plan.split_k == 1


def approximates(plan: MatmulPlan) -> bool:
    """Whether exponentials are the hardware's own."""
    used = any(step.op in TRANSCENDENTAL for step in plan.epilogue)
    return used and in_kernel(plan) and plan.out_dtype != FLOAT32


def refs(plan: MatmulPlan) -> tuple[Ref, ...]:
    """Returns the refs that the kernel has beside those of a plain product."""
    if plan.differentiates_epilogue:
        return (Ref(TERMS, ""),)
    return argument_refs(plan) if in_kernel(plan) else ()


def argument_refs(plan: MatmulPlan) -> tuple[Ref, ...]:
    """Returns a ref for every argument of the epilogue."""
    steps = with_argument(plan.epilogue)
    return tuple(Ref(f"{step.argument}_gmem", step.axes) for step in steps)


def outputs(plan: MatmulPlan) -> tuple[Ref, ...]:
    """Returns the refs of what the kernel stores."""
    if plan.differentiates_epilogue:
        return (Ref(OUTS, "mn"),)
    saved = in_kernel(plan) and saves(plan.epilogue)
    names = ["out_gmem", *([f"{SAVED}_gmem"] if saved else [])]
    return tuple(Ref(name, "mn") for name in names)


def passed(
    plan: MatmulPlan,
    rows: str | None = None,
    columns: str | None = None,
    *,
    batch: str = "",
) -> str:
    """Returns the outputs and what the epilogue reads, in some rows and columns."""
    if plan.differentiates_epilogue and (rows or columns):
        return f"*_at({OUTS}, {TERMS}, {rows or WHOLE}, {columns or WHOLE})"
    stored = [ref.at(rows, columns, batch) for ref in outputs(plan)]
    loaded = [
        Ref(f"_matrix({ref.name}, batch)", ref.axes) if batch else ref
        for ref in refs(plan)
    ]
    return ", ".join([*stored, *(ref.at(rows, columns) for ref in loaded)])


def apply(plan: MatmulPlan, value: str, columns: str | None) -> str:
    """Returns the call that makes the output of a part of the accumulator."""
    parts = [ref.at(None, columns) for ref in refs(plan)]
    return f"_epilogue({', '.join([value, *parts])})"


def call(plan: MatmulPlan, blocks: Mapping[str, str]) -> str:
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
    sides = [*["1"] * plan.batched, *(blocks[axis] for axis in step.axes)]
    return f"_whole({', '.join([step.argument, *sides])})"


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
        "epilogue_refs": ", ".join(["", *(ref.name for ref in argument_refs(plan))]),
        **_ended(
            "step_lines", "last_of_steps", _chain(plan, _in_kernel), _result(plan)
        ),
        "has_row_vectors": rows in vectors,
        "has_column_vectors": columns in vectors,
        "has_gelu": gelu,
        "has_exact_gelu": any(step.approximate == "erf" for step in steps),
        "has_sigmoid": gelu or any(step.op in SIGMOID for step in steps),
        "makes": "the output and what is saved" if saves(steps) else "the output",
        "output_refs": ", ".join(ref.name for ref in outputs(plan)),
    }


def _overview(plan: MatmulPlan) -> str:
    what = "the sum" if plan.split_k > 1 else "the accumulator"
    return f"The epilogue makes the output of {what} x in float32, step by step:"


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


def _in_kernel(plan: MatmulPlan, step: Step) -> list[str]:
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
        vector = f"{'_per_row' if is_row else '_per_column'}({ref}, x.shape)"
    elif step.argument:
        vector = f"{ref}[0]"
    return _step(
        plan, step, vector, sigmoid="_sigmoid(x)", gelu=GELUS.get(step.approximate, "")
    )


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


def spread(plan: MatmulPlan, step: Step, argument: str) -> str:
    """Returns an argument in a shape that broadcasts over the product, as source."""
    if not plan.batched:
        return f"{argument}[:, None]" if step.axes == "m" else argument
    index = {"m": "..., None", "n": "..., None, :", "": "..., None, None"}
    found = index.get(step.axes if argument else "mn")
    return f"{argument}[{found}]" if found else argument


def _leading(step: Step) -> str:
    """Returns what takes the leading dimensions of an argument's shape, as source."""
    return f"[:-{len(step.axes)}]" if step.axes else ""


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


def _table(steps: Sequence[Step]) -> list[str]:
    written = [write(step) for step in steps]
    width = max(map(len, written), default=0)
    return [
        f"{text:{width}}  {formula(step)}"
        for text, step in zip(written, steps, strict=True)
    ]
