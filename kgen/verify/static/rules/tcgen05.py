"""KG7xx: what the tensor cores and the tensor memory of Blackwell can do."""

from collections.abc import Iterator

from kgen.rules import multiples
from kgen.verify.static.facts import Kernel
from kgen.verify.static.rules.base import Finding, declare, rule

PTX = "PTX ISA, Tensorcore 5th Generation Instructions (tcgen05)"
ROWS = (64, 128)
MAX_COLUMNS, MAX_COLLECTIVE_COLUMNS = 512, 128
TMEM_COLUMNS = 512


@rule(
    "KG701",
    title="A tcgen05 product has 64 or 128 rows per CTA",
    reason="Two CTAs together (`collective_axis`) have twice as many.",
    source=PTX,
    bad="acc_tmem = plgpu.TMEM((192, 128), jnp.float32)",
    good="acc_tmem = plgpu.TMEM((128, 128), jnp.float32)",
)
def rows(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.mmas:
        if product.m not in ROWS:
            yield Finding(
                product.place,
                f"m = {product.m} of the tcgen05 product",
                ", ".join(map(str, ROWS)),
            )


@rule(
    "KG702",
    title="Columns of a tcgen05 product: multiples of 8, or 16 for two CTAs",
    reason="Integers and products of 64 rows in one CTA need twice that: columns lie in"
    " two halves of the tensor memory.",
    source=PTX,
    bad="plgpu.tcgen05_mma(acc_tmem, a_smem, b_smem)  # n = 20",
    good="plgpu.tcgen05_mma(acc_tmem, a_smem, b_smem)  # n = 24",
)
def columns(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.mmas:
        step = 16 if product.collective else 8
        step *= 2 if product.accumulator == "int32" else 1
        step *= 2 if product.m == ROWS[0] and not product.collective else 1
        n = product.n // 2 if product.collective else product.n
        if n % step:
            yield Finding(
                product.place,
                f"n = {n} of the tcgen05 product is not a multiple of {step}",
                multiples(step, 256),
            )


@rule(
    "KG703",
    title="A tcgen05 product has at most 512 columns, or 128 per CTA for two CTAs",
    reason="More would not fit in the tensor memory; Mosaic GPU splits up to 512 columns"
    " into instructions of 256.",
    source=PTX + "; Mosaic GPU, tcgen05",
    bad='plgpu.tcgen05_mma(acc_tmem, a_smem, b_smem, collective_axis="cluster")'
    "\n# b_smem: [64, 256]",
    good='plgpu.tcgen05_mma(acc_tmem, a_smem, b_smem, collective_axis="cluster")'
    "\n# b_smem: [64, 128]",
)
def most_columns(kernel: Kernel) -> Iterator[Finding]:
    for product in kernel.mmas:
        n = product.n // 2 if product.collective else product.n
        top = MAX_COLLECTIVE_COLUMNS if product.collective else MAX_COLUMNS
        if n > top:
            yield Finding(
                product.place,
                f"n = {n} of the tcgen05 product",
                f"at most {top}",
            )


@rule(
    "KG704",
    title="A CTA has 512 columns of tensor memory",
    reason="TMEM has 128 rows of 512 columns, 32 bits each; it is allocated by columns.",
    source=PTX + ", Tensor Memory",
    bad="plgpu.TMEM((128, 640), jnp.float32)",
    good="plgpu.TMEM((128, 512), jnp.float32)",
)
def tmem(kernel: Kernel) -> Iterator[Finding]:
    if kernel.tmem_columns > TMEM_COLUMNS:
        yield Finding(
            kernel.place,
            f"the CTA needs {kernel.tmem_columns} columns of TMEM",
            f"at most {TMEM_COLUMNS}",
        )


declare(
    "KG705",
    title="The barrier of a tcgen05 product orders the tensor core",
    reason="Otherwise a wait for it says nothing of what the tensor core has done.",
    source=PTX + ", memory consistency; JAX, plgpu.Barrier",
    bad="plgpu.Barrier()",
    good="plgpu.Barrier(orders_tensor_core=True)",
)
