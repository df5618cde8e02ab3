"""KG3xx on a traced kernel: what a TMA copy can move."""

import math
from collections.abc import Iterator

from kgen.verify.static.facts import Copy, Kernel
from kgen.verify.static.rules.base import Finding, rule, traced
from kgen.verify.static.rules.boxes import (
    box_of,
    dimensions_of,
    is_contiguous,
    may_be_tiled,
    tiles_of,
)
from kgen.verify.static.values import misaligned

DRIVER = "CUDA driver API, cuTensorMapEncodeTiled"
ROW_BITS = 128
COPY_BYTES = 128
MAX_RANK = 5
MAX_SIZE = 2**32


def _described(copy: Copy) -> str:
    verb = "load" if copy.to_smem else "store"
    return f"a {verb} of {copy.dtype}{list(copy.box)}"


@traced("KG301")
def box(kernel: Kernel) -> Iterator[Finding]:
    limit = kernel.arch.tma_box
    for copy in kernel.copies:
        if copy.collective_axes or is_contiguous(copy) or may_be_tiled(copy):
            continue
        largest = max(box_of(copy), default=1)
        if largest > limit:
            yield Finding(
                copy.place,
                f"{_described(copy)} is a box of {largest} along one dimension",
                f"at most {limit}",
                "copy less at once; see `kgen rule KG301`",
            )


@traced("KG302")
def row_bytes(kernel: Kernel) -> Iterator[Finding]:
    for copy in kernel.copies:
        shape = copy.gmem_shape
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape) - 1)]
        if any(stride * copy.bits % ROW_BITS for stride in strides):
            yield Finding(
                copy.place,
                f"the rows of {copy.dtype}{list(shape)} in GMEM take"
                f" {shape[-1] * copy.bits / 8:g} bytes",
                "multiples of 16 bytes",
                f"use a multiple of {ROW_BITS // copy.bits} elements",
            )
        elif copy.box[-1] * copy.bits % ROW_BITS and not copy.squeezed[-1]:
            yield Finding(
                copy.place,
                f"a row of {_described(copy)} takes"
                f" {copy.box[-1] * copy.bits / 8:g} bytes",
                "multiples of 16 bytes",
                f"use a multiple of {ROW_BITS // copy.bits} elements",
            )


@traced("KG303")
def copy_bytes(kernel: Kernel) -> Iterator[Finding]:
    if not kernel.lane_semantics:
        return  # Mosaic GPU then has one thread expect all the bytes.
    for copy in kernel.copies:
        size = math.prod(copy.box) * copy.bits // 8
        if copy.to_smem and not copy.orders_tensor_core and size % COPY_BYTES:
            yield Finding(
                copy.place,
                f"{_described(copy)} moves {size} bytes",
                f"multiples of {COPY_BYTES} bytes",
            )


@rule(
    "KG304",
    title="A TMA copy has at most 5 dimensions",
    reason="A tiled dimension counts twice, those that an index selects count as one.",
    source=DRIVER + "; reproduced on a CPU",
    bad="plgpu.copy_gmem_to_smem(x_gmem.at[:, :, :, :, :, :], x_smem, barrier)",
    good="plgpu.copy_gmem_to_smem(x_gmem.at[i, j, :, :, :, :], x_smem, barrier)",
)
def rank(kernel: Kernel) -> Iterator[Finding]:
    for copy in kernel.copies:
        dimensions = dimensions_of(copy)
        squeezed = sum(d.squeezed and d.whole > 1 for d in dimensions)
        indexed = sum(d.squeezed for d in dimensions)
        kept = len(box_of(copy)) - squeezed
        if kept + min(indexed, 1) > MAX_RANK and kept + squeezed > MAX_RANK:
            yield Finding(
                copy.place,
                f"{_described(copy)} has {kept} dimensions",
                f"at most {MAX_RANK}, tiled ones counted twice",
            )


@rule(
    "KG305",
    title="A TMA copy moves elements that are contiguous in GMEM",
    reason="The stride of the innermost dimension is 1: it cannot be selected by an"
    " index.",
    source=DRIVER + "; reproduced on a CPU",
    bad="plgpu.copy_gmem_to_smem(x_gmem.at[:, 0], column_smem, barrier)",
    good="plgpu.copy_gmem_to_smem(x_gmem.at[0], row_smem, barrier)",
)
def minor_stride(kernel: Kernel) -> Iterator[Finding]:
    for copy in kernel.copies:
        long = [d for d in dimensions_of(copy) if (d.whole, d.size) != (1, 1)]
        if long and any(d.index > long[-1].index for d in long):
            yield Finding(
                copy.place,
                f"{_described(copy)} of {copy.dtype}{list(copy.gmem_shape)} steps over"
                " elements",
                "a slice of the last dimension",
            )


@rule(
    "KG306",
    title="Arrays in GMEM have at most 2^32 elements along each dimension",
    reason="TMA cannot address more. Upstream lowers such a kernel without complaint"
    " and aborts the process when it runs.",
    source=DRIVER + "; reproduced",
    bad="matmul(a, b)  # a: float16[4294967424, 64]",
    good="matmul(a, b)  # a: float16[65536, 64]",
)
def gmem_size(kernel: Kernel) -> Iterator[Finding]:
    for copy in kernel.copies:
        for size in copy.gmem_shape:
            if size > MAX_SIZE:
                yield Finding(
                    copy.place,
                    f"{copy.dtype}{list(copy.gmem_shape)} has {size:,} elements along"
                    " one dimension",
                    f"at most {MAX_SIZE:,}",
                )


@rule(
    "KG307",
    title="A tiled dimension of an array is a multiple of the tile, or smaller",
    reason="TMA sees the array as whole tiles. Reads beyond the end fill with zeros and"
    " stores there are dropped only as far as this rule holds.",
    source="Mosaic GPU, TileTransform; reproduced on a CPU",
    bad="plgpu.TilingTransform((8, 64))  # of an array with 200 columns",
    good="plgpu.TilingTransform((8, 64))  # of an array with 192 columns",
)
def gmem_tiles(kernel: Kernel) -> Iterator[Finding]:
    for copy in kernel.copies:
        for dimension, tile in tiles_of(copy):
            if dimension.whole > tile and dimension.whole % tile:
                yield Finding(
                    copy.place,
                    f"{dimension.whole} of {copy.dtype}{list(copy.gmem_shape)} is not a"
                    f" multiple of {tile}, the tile of"
                    f" {'the load' if copy.to_smem else 'the store'}",
                    f"multiples of {tile}",
                )


@rule(
    "KG308",
    title="A tiled copy begins at a tile",
    reason="TMA sees the array as whole tiles: a copy that begins within one takes the"
    " rest of it from nowhere, and the data is wrong without any error.",
    source="Mosaic GPU, TileTransform",
    bad="plgpu.copy_gmem_to_smem(x_gmem.at[:, pl.ds(n * 32, 64)], x_smem, barrier)"
    "\n# tiles of (8, 64)",
    good="plgpu.copy_gmem_to_smem(x_gmem.at[:, pl.ds(n * 64, 64)], x_smem, barrier)"
    "\n# tiles of (8, 64)",
)
def offsets(kernel: Kernel) -> Iterator[Finding]:
    sizes = kernel.axis_sizes()
    for copy in kernel.copies:
        for dimension, tile in tiles_of(copy):
            offset = copy.offsets[dimension.index]
            if misaligned(offset, tile, sizes, copy.guards):
                yield Finding(
                    copy.place,
                    f"{_described(copy)} does not begin at a multiple of {tile} along"
                    f" dimension {dimension.index}, the tile there",
                    f"multiples of {tile}",
                    "the data would be wrong without any error; see `kgen rule KG308`",
                )


@rule(
    "KG309",
    title="Loads and barriers are shared along axes of the cluster",
    reason="A multicast goes to the CTAs of one cluster; axes of the grid are none of"
    " its axes.",
    source="Mosaic GPU, async_copy; reproduced on a CPU",
    bad='plgpu.copy_gmem_to_smem(x_gmem, x_smem, barrier, collective_axes="m")',
    good='plgpu.copy_gmem_to_smem(x_gmem, x_smem, barrier, collective_axes="cluster")',
)
def collective_axes(kernel: Kernel) -> Iterator[Finding]:
    sharing = [("load", copy.place, copy.collective_axes) for copy in kernel.copies]
    sharing += [("barrier", a.place, a.collective_axes) for a in kernel.allocations]
    for what, place, axes in sharing:
        for axis in axes:
            if axis not in kernel.cluster_names:
                yield Finding(
                    place,
                    f"a {what} is shared along {axis}, which is no axis of the cluster",
                    ", ".join(kernel.cluster_names) or "none: there is no cluster",
                )


@rule(
    "KG310",
    title="A TMA copy has no steps",
    reason="Upstream overlooks the step of a slice and copies the rows that follow one"
    " another: the data is wrong without any error.",
    source="Mosaic GPU, async_load: the step of a slice is not read; reproduced on a CPU",
    bad="plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(0, 64, 2)], x_smem, barrier)",
    good="plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(0, 64)], x_smem, barrier)",
)
def steps(kernel: Kernel) -> Iterator[Finding]:
    for copy in kernel.copies:
        for dimension, step in enumerate(copy.steps):
            if step != 1:
                yield Finding(
                    copy.place,
                    f"{_described(copy)} has a step of {step} along dimension"
                    f" {dimension}",
                    "1",
                )
