"""The spec of a gated linear unit: that of a matmul, with an activation."""

from typing import Literal

from kgen.spec.model import Kernel, Spec


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


class GluSpec(Spec):
    """The spec of a gated linear unit. A is x, and B each of the two weights."""

    kernel: GluKernel
