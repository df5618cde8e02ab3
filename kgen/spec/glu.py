"""The spec of a gated linear unit: that of a matmul, with an activation."""

from typing import Annotated, Literal

from pydantic import Field

from kgen.spec.model import Kernel, Pipeline, Size, Spec, Store


class GluKernel(Kernel):
    """What is made, and how it is called."""

    op: Literal["glu"]  # type: ignore[assignment]
    """The operation."""
    entry_point: Literal["kernel"] = "kernel"
    """How the kernel is written: its body moves the output itself."""
    layout: Literal["nn", "nt"] = "nn"
    """How x and the weights lie in memory. `nn`: x is [m, k] and the weights are [k, n].
    `nt`: they are [n, k]. Only 16-bit operands may be `nn`."""
    autodiff: bool = False
    """Only false: the gradients of a gated linear unit are not built."""
    out_order: Literal["row"] = "row"
    """Order of the output: [m, n]."""
    activation: Literal["silu", "gelu"] = "silu"
    """What the product with the first weight passes through; `gelu` is approximated by
    tanh."""


class GluPipeline(Pipeline):
    """How loads and the activation overlap with products."""

    gate_first: Annotated[int, Field(ge=0, le=64)] = 0
    """Last steps of a tile in which the products with the first weight all come before
    those with the second: the activation is computed while these still run. At most
    `max_concurrent_steps`, whose slots it keeps that long."""


class GluStore(Store):
    """How the output leaves through SMEM."""

    m: Size | Literal["auto"] = "auto"
    """Rows stored at once with `schedule.swap_operands`, a multiple of 8; the last piece
    may have fewer. `auto` takes as few pieces as fit in SMEM."""


class GluSpec(Spec):
    """The spec of a gated linear unit. A is x, and B each of the two weights."""

    kernel: GluKernel
    pipeline: GluPipeline = GluPipeline()
    store: GluStore = GluStore()
