"""The spec of `op = "dispatch"`: which kernel is for which sizes."""

from typing import Annotated, Literal

from pydantic import Field

from kgen.spec.model import AnyKernel, AnySpec, Shape, Table


class DispatchKernel(AnyKernel):
    """What is made, and how it is called."""

    op: Literal["dispatch"]
    """The operation: a module that picks one of several matmul kernels by the size."""


class Bucket(Table):
    """A kernel, and the sizes that it is for. The table is written once for each."""

    kernel: str = Field(min_length=1, max_length=100)
    """Name of the kernel. Its spec lies in the same directory."""
    shapes: Annotated[tuple[Shape, ...], Field(min_length=1, max_length=64)]
    """Sizes (m, n, k). Other sizes go to the kernel of the nearest that can do them."""


class DispatchSpec(AnySpec):
    """The spec of a dispatch module."""

    kernel: DispatchKernel
    bucket: Annotated[tuple[Bucket, ...], Field(min_length=1, max_length=64)]
    """A kernel, and the sizes that it is for. The table is written once for each."""
