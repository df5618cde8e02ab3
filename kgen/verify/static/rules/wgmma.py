"""KG1xx on a traced kernel: what the wgmma instruction can do."""

from collections.abc import Iterator

from kgen.rules import multiples
from kgen.verify.static.facts import Kernel, Operand
from kgen.verify.static.rules.base import Finding, rule, traced

PTX = "PTX ISA, Asynchronous Warpgroup Level Matrix Instructions (wgmma)"
M, N_STEP, N_MAX = 64, 8, 256
NARROWEST_SWIZZLE = 32
FP8 = ("float8_e4m3fn", "float8_e5m2")
ACCUMULATORS = {
    "float16": ("float32", "float16"),
    "bfloat16": ("float32",),
    "float32": ("float32",),
    "float8_e4m3fn": ("float32", "float16"),
    "float8_e5m2": ("float32", "float16"),
    "int8": ("int32",),
}
"""Accumulators by operands."""


def _step(operand: Operand) -> tuple[int, str]:
    """Returns how many elements a swizzle spans, and which swizzle that is."""
    swizzle = operand.layout.swizzle
    width = swizzle or NARROWEST_SWIZZLE
    what = f"swizzle {swizzle}" if swizzle else f"any swizzle, at least {width}"
    return max(width // max(operand.itemsize, 1), 1), what


@traced("KG101")
def rows(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.wgmmas:
        if product.m % M:
            yield Finding(
                product.place,
                f"m = {product.m} of the wgmma is not a multiple of {M}",
                multiples(M, 256),
                "wgmma works on 64-row tiles; see `kgen rule KG101`",
            )


@traced("KG102")
def columns(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.wgmmas:
        if product.n % N_STEP or product.n > N_MAX:
            yield Finding(
                product.place,
                f"n = {product.n} of the wgmma is not a multiple of {N_STEP} up to"
                f" {N_MAX}",
                multiples(N_STEP, N_MAX),
            )


@traced("KG103")
def n_major_b(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.wgmmas:
        if product.b.k_major is not False or product.b.itemsize != 2:
            continue
        step, what = _step(product.b)
        if product.n % step:
            yield Finding(
                product.place,
                f"n = {product.n} of the wgmma is not a multiple of {step} (B is"
                f" N-major, {what})",
                multiples(step, N_MAX),
                "a narrower swizzle allows more sizes, a K-major B ([n, k],"
                " transposed) multiples of 8; see `kgen rule KG103`",
            )


@traced("KG104")
def depth(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.wgmmas:
        if product.b.shape is None:
            continue
        (step, what), k = _step(product.b), product.b.shape[0]
        if k % step:
            yield Finding(
                product.place,
                f"k = {k} of the wgmma is not a multiple of {step} ({what},"
                f" {product.b.dtype})",
                multiples(step, 256),
            )


@traced("KG106")
def accumulator(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.wgmmas:
        allowed = ACCUMULATORS.get(product.b.dtype)
        if allowed and product.accumulator not in allowed:
            yield Finding(
                product.place,
                f"the accumulator of {product.b.dtype} operands is"
                f" {product.accumulator}",
                " or ".join(allowed),
            )


@traced("KG107")
def transposed(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.wgmmas:
        for name, operand, other in (
            ("A", product.a, "M-major"),
            ("B", product.b, "N-major"),
        ):
            if operand.k_major is False and operand.itemsize != 2:
                yield Finding(
                    product.place,
                    f"{name} of the wgmma is {other}, which {operand.dtype} cannot be",
                    "K-major: A as [m, k], B as [n, k] and transposed",
                )


@rule(
    "KG108",
    title="A in registers has elements of 8 or 16 bits",
    reason="wgmma takes A from registers only so. A value that goes there must also be"
    " complete before the wgmma and unchanged until it is done, which is hard to"
    " synchronise: prefer SMEM.",
    source=PTX + ", register fragments; reproduced on a CPU",
    bad="a = a_smem[...]  # float32\nplgpu.wgmma(acc, a, b_smem)",
    good="plgpu.wgmma(acc, a_smem, b_smem)",
)
def a_in_registers(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.wgmmas:
        if product.a.space == "registers" and product.a.itemsize > 2:
            yield Finding(
                product.place,
                f"A of the wgmma is {product.a.dtype} in registers",
                "8- and 16-bit elements, or A in SMEM",
            )


@rule(
    "KG109",
    title="wgmma multiplies float16, bfloat16, float32 as tf32, fp8 and int8",
    reason="There are no instructions for other elements, nor for unsigned integers in"
    " Mosaic GPU.",
    source=PTX + "; reproduced on a CPU",
    bad="plgpu.SMEM((64, 64), jnp.int16)",
    good="plgpu.SMEM((64, 64), jnp.int8)",
)
def dtypes(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.wgmmas:
        if product.b.dtype not in ACCUMULATORS:
            yield Finding(
                product.place,
                f"the operands of the wgmma are {product.b.dtype}",
                ", ".join(ACCUMULATORS),
            )
