"""What a spec with `op = "scale"` may say."""

from typing import Annotated, Literal

from pydantic import Field

from kgen.spec.model import AnyKernel, AnySpec, Size, Table


class Kernel(AnyKernel):
    """What is made, and how it is called."""

    op: Literal["scale"]
    """The operation."""


class Scale(Table):
    """What the result is."""

    alpha: Annotated[float, Field(ge=-1e4, le=1e4, allow_inf_nan=False)]
    """The factor, rounded to float32."""
    dtype: Literal["float16", "bfloat16", "float32"] = "float32"
    """Elements of the operand and of the result."""


class Tile(Table):
    """What one CTA computes at once."""

    m: Size = 64
    """Rows."""
    n: Size = 128
    """Columns."""


class ScaleSpec(AnySpec):
    """A spec of the operation `scale`."""

    kernel: Kernel
    scale: Scale
    tile: Tile = Tile()
