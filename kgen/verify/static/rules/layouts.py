"""KG2xx on a traced kernel: SMEM layouts."""

from collections.abc import Iterator

from kgen.verify.static.facts import Kernel, Operand
from kgen.verify.static.rules.base import Finding, declare, rule, traced

ROWS = 8  # A swizzle atom has 8 rows.


@traced("KG201")
def same_swizzle(kernel: Kernel) -> Iterator[Finding]:
    for product in (*kernel.wgmmas, *kernel.mmas):
        a, b = product.a.layout.swizzle, product.b.layout.swizzle
        if product.a.space == "smem" and a and b and a != b:
            yield Finding(
                product.place,
                f"the swizzle of B is {b} bytes, that of A {a}",
                "one swizzle for both",
            )


@traced("KG202")
def tiling(kernel: Kernel) -> Iterator[Finding]:
    for product in (*kernel.wgmmas, *kernel.mmas):
        for name, operand in (("A", product.a), ("B", product.b)):
            message = _bad_tiling(operand, kernel.lane_semantics)
            if message:
                yield Finding(
                    product.place,
                    f"{name} of the product has {message}",
                    "TilingTransform((8, swizzle / itemsize)) and a SwizzleTransform",
                )


def _bad_tiling(operand: Operand, lane_semantics: bool) -> str | None:
    """Says what is wrong with an operand's layout, if anything."""
    if operand.space != "smem":
        return None
    swizzle, found = operand.layout.swizzle, operand.layout.tiling
    if swizzle is None and found is None:
        # Otherwise Mosaic GPU chooses a layout itself.
        return "no layout" if lane_semantics else None
    if swizzle is None:
        return f"the tiling {list(found or ())} without a swizzle"
    if found is None:
        return f"a {swizzle}-byte swizzle without a tiling"
    wanted = (ROWS, swizzle // max(operand.itemsize, 1))
    if found == wanted or operand.itemsize == 0:
        return None
    return f"the tiling {list(found)} with a {swizzle}-byte swizzle of {operand.dtype}"


@rule(
    "KG204",
    title="A layout fits the shape of its ref",
    reason="A ref is made of whole tiles, and a swizzle is as wide as a row of them."
    " Upstream answers a shape that no tiling divides with an empty AssertionError.",
    source="Mosaic GPU, TilingTransform and SwizzleTransform; reproduced on a CPU",
    bad="plgpu.SMEM((64, 96), jnp.float16, transforms=(\n"
    "    plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))",
    good="plgpu.SMEM((64, 96), jnp.float16, transforms=(\n"
    "    plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(64)))",
)
def fits(kernel: Kernel) -> Iterator[Finding]:
    for ref in kernel.allocations:
        if ref.layout_fault:
            yield Finding(
                ref.place,
                f"a ref of {ref.dtype}{list(ref.shape)} cannot have"
                f" {ref.layout_fault}",
                "tiles that divide the shape, then a swizzle as wide as they are",
            )


declare(
    "KG205",
    title="A swizzle is 32, 64 or 128 bytes wide",
    reason="TMA and wgmma know no others.",
    source="CUDA driver API, cuTensorMapEncodeTiled; Mosaic GPU, SwizzleTransform",
    bad="plgpu.SwizzleTransform(16)",
    good="plgpu.SwizzleTransform(32)",
)
