"""The steps of `[[epilogue]]`: a table each, told apart by its `op`."""

from typing import Annotated, Literal

from pydantic import Field

from kgen.spec.table import Table

FloatDtype = Literal["float16", "bfloat16", "float32"]

# Wide enough for every scale and every dtype; a constant that is larger is a mistake.
Number = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
# Kernels multiply by its inverse, too, which float32 must hold.
Positive = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]
ArgumentName = Annotated[
    str,
    Field(
        max_length=50,
        pattern="^[A-Za-z][A-Za-z0-9_]*$",
        json_schema_extra={"examples": ["alpha"]},
    ),
]


class Scale(Table):
    """Multiplies by a constant, or by a scalar argument."""

    op: Literal["scale"]
    """The step."""
    value: Number | None = None
    """The constant; the scalar argument is multiplied by instead, if left out."""
    argument: ArgumentName | None = None
    """Name of the scalar argument, float32; `alpha`, if neither is given."""


class ScaleRows(Table):
    """Multiplies every row of the output by an element of a float32 vector."""

    op: Literal["scale_rows"]
    """The step."""
    argument: ArgumentName = "row_scale"
    """Name of the argument, float32[m]."""


class ScaleColumns(Table):
    """Multiplies every column of the output by an element of a float32 vector."""

    op: Literal["scale_columns"]
    """The step."""
    argument: ArgumentName = "column_scale"
    """Name of the argument, float32[n]."""


class Bias(Table):
    """Adds a vector."""

    op: Literal["bias"]
    """The step."""
    along: Literal["m", "n"] = "n"
    """Dimension that the vector lies along: with `n` there is one bias per column."""
    argument: ArgumentName = "bias"
    """Name of the argument."""
    dtype: FloatDtype | None = None
    """Elements of the vector; as the output's, if left out."""


class Residual(Table):
    """Adds another matrix, times `beta`."""

    op: Literal["residual"]
    """The step."""
    beta: Number = 1.0
    """What the matrix is multiplied by."""
    argument: ArgumentName = "residual"
    """Name of the argument, [m, n]."""
    dtype: FloatDtype | None = None
    """Elements of the matrix; as the output's, if left out."""


class Relu(Table):
    """What is negative becomes zero."""

    op: Literal["relu"]
    """The step."""


class Gelu(Table):
    """Gaussian error linear unit."""

    op: Literal["gelu"]
    """The step."""
    approximate: Literal["tanh", "erf"] = "tanh"
    """`tanh`: the usual approximation. `erf`: the definition itself."""


class Silu(Table):
    """Sigmoid linear unit, also called swish."""

    op: Literal["silu"]
    """The step."""


class Tanh(Table):
    """Hyperbolic tangent."""

    op: Literal["tanh"]
    """The step."""


class Sigmoid(Table):
    """Logistic function."""

    op: Literal["sigmoid"]
    """The step."""


class Clamp(Table):
    """Limits values from one side or from both."""

    op: Literal["clamp"]
    """The step."""
    min: Number | None = None
    """The smallest value; none, if left out."""
    max: Number | None = None
    """The largest value; none, if left out."""


class Softcap(Table):
    """Limits values smoothly."""

    op: Literal["softcap"]
    """The step."""
    cap: Positive
    """The limit on both sides, which is never reached."""


class Cast(Table):
    """Rounds to a dtype; what follows is computed in float32 again."""

    op: Literal["cast"]
    """The step."""
    dtype: FloatDtype
    """What is rounded to."""


class Save(Table):
    """Returns what the steps so far have made, too, such as the pre-activation for the
    backward pass. It is rounded to the output's dtype; the steps go on without that."""

    op: Literal["save"]
    """The step."""


Step = Annotated[
    Scale
    | ScaleRows
    | ScaleColumns
    | Bias
    | Residual
    | Relu
    | Gelu
    | Silu
    | Tanh
    | Sigmoid
    | Clamp
    | Softcap
    | Cast
    | Save,
    Field(discriminator="op"),
]
Epilogue = Annotated[tuple[Step, ...], Field(max_length=16)]
