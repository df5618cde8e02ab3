"""KG66x: gradients."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.legality.base import Finding, rule

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

AUTODIFF = "[kernel]\nautodiff = true\n"
FLOAT32 = "float32"


@rule(
    "KG660",
    title="Only products of 16-bit operands have gradients",
    reason="The gradients are products in which other operands are stored transposed: "
    "of C = A @ B.T they are dC @ B and dC.T @ A. wgmma reads float32 (tf32) and 8-bit "
    "operands K-major only, and a copy in the other order costs what the kernel saves.",
    source="PTX ISA, Asynchronous Warpgroup Level Matrix Instructions (wgmma), matrix "
    "descriptor",
    bad='[kernel]\nlayout = "nt"\nautodiff = true\n'
    '[dtypes]\na = "float32"\nb = "float32"',
    good='[kernel]\nlayout = "nt"\nautodiff = true\n'
    '[dtypes]\na = "float16"\nb = "float16"',
)
def sixteen_bits(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.autodiff and candidate.itemsize != 2:
        yield Finding(
            "kernel.autodiff",
            f"autodiff = true with operands of {candidate.spec.dtypes.a}",
            'dtypes.a = "float16" or "bfloat16", or autodiff = false',
        )


@rule(
    "KG661",
    title="A gated linear unit has no gradients",
    reason="Its derivative needs both products, which the kernel keeps in registers "
    "alone. Two modules of plain products with gradients, and the gate in JAX between "
    "them, can be differentiated.",
    source="kgen",
    bad='[kernel]\nname = "glu"\nop = "glu"\nautodiff = true\n'
    "[schedule]\nwarp_specialized = true\npersistent = true",
    good='[kernel]\nname = "glu"\nop = "glu"\n'
    "[schedule]\nwarp_specialized = true\npersistent = true",
)
def no_glu(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.autodiff and candidate.activation:
        yield Finding("kernel.autodiff", 'autodiff = true with op = "glu"', "false")


@rule(
    "KG662",
    title="An epilogue that is differentiated is applied to whole tiles",
    reason="The kernel applies it where the output has gradients, and leaves it out where "
    "it makes the gradients of A and B. With a split K the kernel never applies it, and "
    "at the edge of a tile that is not whole its arguments would have to be padded, and "
    "their gradients cut. Apply the steps in JAX, after the call: JAX differentiates them.",
    source="kgen",
    bad=AUTODIFF + '[shapes]\nedge = "any"\n[[epilogue]]\nop = "relu"',
    good=AUTODIFF + '[shapes]\nedge = "exact"\n[[epilogue]]\nop = "relu"',
)
def whole_tiles(candidate: "Candidate") -> Iterator[Finding]:
    if not candidate.differentiates_epilogue:
        return
    if candidate.any_edge:
        yield Finding(
            "shapes.edge",
            'edge = "any" with autodiff = true and an epilogue',
            'edge = "exact", or no epilogue',
        )
    if candidate.split_k > 1:
        yield Finding(
            "schedule.split_k",
            f"split_k = {candidate.split_k} with autodiff = true and an epilogue",
            "no split_k, or no epilogue",
        )


@rule(
    "KG668",
    title="A product with gradients saves nothing of its epilogue",
    reason="When it is differentiated, the kernel stores the product beside the output by "
    "itself: the backward pass makes of it what it needs. A saved value would be a third "
    "output.",
    source="kgen",
    bad=AUTODIFF
    + '[[epilogue]]\nop = "bias"\n[[epilogue]]\nop = "save"\n'
    + '[[epilogue]]\nop = "silu"',
    good=AUTODIFF + '[[epilogue]]\nop = "bias"\n[[epilogue]]\nop = "silu"',
)
def saves_nothing(candidate: "Candidate") -> Iterator[Finding]:
    for index, step in enumerate(candidate.epilogue):
        if candidate.autodiff and step.op == "save":
            yield Finding(
                f"epilogue.{index}",
                f"epilogue[{index}] is a save with autodiff = true",
                "without it",
            )


@rule(
    "KG663",
    title="A product with gradients has its operands' dtype or float32",
    reason="The kernel of the product makes the gradients, too, and stores them as it "
    "stores the result. Through another 16-bit dtype they would lose its range or its "
    "bits on their way to the operands' dtype.",
    source="IEEE 754: float16 ends at 65,504; bfloat16 has 8 bits",
    bad=AUTODIFF + '[dtypes]\na = "bfloat16"\nb = "bfloat16"\nout = "float16"',
    good=AUTODIFF + '[dtypes]\na = "bfloat16"\nb = "bfloat16"\nout = "float32"',
)
def result_dtype(candidate: "Candidate") -> Iterator[Finding]:
    operand, out = candidate.spec.dtypes.a, candidate.out_dtype
    if candidate.autodiff and candidate.itemsize == 2 and out not in (operand, FLOAT32):
        yield Finding(
            "dtypes.out",
            f'dtypes.out = "{out}" with autodiff = true and operands of {operand}',
            f'"{operand}" or "{FLOAT32}"',
        )


@rule(
    "KG664",
    title="The result of a product with gradients is stored in rows",
    reason="The gradients are stored as A and B are, by the kernel that stores the "
    "result. In column order it would store them turned around.",
    source="kgen",
    bad=AUTODIFF + 'out_order = "column"',
    good=AUTODIFF + 'out_order = "row"',
)
def row_order(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.autodiff and candidate.out_order != "row":
        yield Finding(
            "kernel.out_order", 'out_order = "column" with autodiff = true', '"row"'
        )


@rule(
    "KG665",
    title="A product with gradients has no swapped operands",
    reason="Swapped operands serve a product of few rows. The gradient of B sums over "
    "these rows alone, which are less than one step of K.",
    source="kgen",
    bad=AUTODIFF
    + "[tile]\nm = 16\n[schedule]\nwarp_specialized = true\nswap_operands = true",
    good=AUTODIFF + "[schedule]\nwarp_specialized = true",
)
def no_swapped_operands(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.autodiff and candidate.swap_operands:
        yield Finding(
            "schedule.swap_operands",
            "swap_operands = true with autodiff = true",
            "false",
        )


@rule(
    "KG666",
    title="A product with gradients has no batch",
    reason="Where all matrices share an operand, its gradient is a sum over them, which "
    "is a product of another kind. `jax.vmap` maps a product with gradients and its "
    "gradients alike.",
    source="kgen",
    bad=AUTODIFF + "[shapes]\nbatch = true",
    good=AUTODIFF + "[shapes]\nbatch = false",
)
def no_batch(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.autodiff and candidate.batched:
        yield Finding("shapes.batch", "batch = true with autodiff = true", "false")


@rule(
    "KG667",
    title="A product with gradients has no function for PyTorch's tensors",
    reason="PyTorch's autograd does not see the rule of `jax.custom_vjp`: tensors would "
    "come back without a gradient, and nothing would say so.",
    source="JAX, plgpu.as_torch_kernel",
    bad=AUTODIFF + "[module]\ntorch = true",
    good=AUTODIFF + "[module]\ntorch = false",
)
def no_torch(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.autodiff and candidate.torch:
        yield Finding("module.torch", "torch = true with autodiff = true", "false")
