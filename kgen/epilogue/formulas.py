"""The formula of every step, for docstrings and the docs; x is what came before."""

from kgen.epilogue.steps import Step

FORMULAS = {
    "scale": "x * {factor}",
    "scale_rows": "x * {argument}[m, 1]",
    "scale_columns": "x * {argument}[1, n]",
    "bias": "x + {argument}[{place}]",
    "residual": "x {added}",
    "relu": "max(x, 0)",
    "gelu": "{gelu}",
    "silu": "x / (1 + exp(-x))",
    "tanh": "tanh(x)",
    "sigmoid": "1 / (1 + exp(-x))",
    "clamp": "{clamp}",
    "softcap": "{value} * tanh(x / {value})",
    "cast": "x, rounded to {dtype}",
    "save": "returned, too",
}
GELU = {
    "tanh": "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))",
    "erf": "x / 2 * (1 + erf(x / sqrt(2)))",
}

DESCRIBED = {
    "scale": ("x * value", "x * alpha"),
    "scale_rows": ("x * row_scale[m, 1]",),
    "scale_columns": ("x * column_scale[1, n]",),
    "bias": ("x + bias[1, n]", "x + bias[m, 1]"),
    "residual": ("x + beta * residual[m, n]",),
    "gelu": tuple(GELU.values()),
    "clamp": ("min(max(x, min), max)",),
    "softcap": ("cap * tanh(x / cap)",),
    "cast": ("x, rounded to dtype",),
}
"""The same where keys of a spec stand for what they say."""


def described(op: str) -> str:
    """Returns the formulas that a step may have, as Markdown."""
    texts = DESCRIBED.get(op, (FORMULAS[op],))
    return " or ".join(f"`{text}`" for text in texts)


def formula(step: Step) -> str:
    """Returns what a step makes of x."""
    value = "" if step.value is None else repr(step.value)
    return FORMULAS[step.op].format(
        argument=step.argument,
        factor=step.argument or value,
        place="m, 1" if step.along == "m" else "1, n",
        added=added(step, f"{step.argument}[m, n]"),
        gelu=GELU.get(step.approximate, ""),
        clamp=clamped(step),
        value=value,
        dtype=step.dtype,
    )


def added(step: Step, term: str) -> str:
    """Returns what a residual adds of a term, with its sign: `- 2.0 * residual`."""
    beta = 1.0 if step.value is None else step.value
    factor = "" if abs(beta) == 1 else f"{abs(beta)!r} * "
    return f"{'-' if beta < 0 else '+'} {factor}{term}"


def clamped(step: Step, x: str = "x") -> str:
    """Returns what a clamp makes of x."""
    text = x if step.low is None else f"max({x}, {step.low!r})"
    return text if step.high is None else f"min({text}, {step.high!r})"
