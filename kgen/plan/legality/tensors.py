"""KG69x: kernels for PyTorch tensors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.epilogue.steps import with_argument
from kgen.float8 import FLOAT8
from kgen.plan.legality.base import Finding, rule

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

TORCH = "[module]\ntorch = true\n"
WS = "[schedule]\nwarp_specialized = true\n"
KEY = "module.torch"
ALLOWED = "one of the two"


@rule(
    "KG690",
    title="A function for PyTorch is a kernel and nothing else",
    reason="plgpu.as_torch_kernel launches one Mosaic GPU kernel on the tensors as they "
    "are. What JAX computes around a kernel would have to run in XLA: pads and slices, "
    "the sum of the parts of K, the reshapes of a batch and of scalar arguments.",
    source="jax/_src/pallas/mosaic_gpu/torch.py",
    bad=TORCH + '[shapes]\nedge = "any"',
    good=TORCH + '[shapes]\nedge = "exact"',
)
def nothing_around(candidate: "Candidate") -> Iterator[Finding]:
    if not candidate.torch:
        return
    scalars = [
        step.argument for step in with_argument(candidate.epilogue) if not step.axes
    ]
    found = {
        'shapes.edge = "any"': candidate.any_edge,
        f"split_k = {candidate.split_k}": candidate.split_k > 1,
        "shapes.batch = true": candidate.batched,
        f"the scalar argument {', '.join(scalars)}": bool(scalars),
    }
    for text, is_so in found.items():
        if is_so:
            yield Finding(KEY, f"torch = true with {text}", ALLOWED)


@rule(
    "KG691",
    title="A function for PyTorch multiplies operands of 16 or 32 bits",
    reason="The module's test hands tensors over by DLPack, which has no 8-bit floats in "
    "all versions of JAX and PyTorch: nothing could be proven.",
    source="kgen",
    bad=TORCH
    + '[kernel]\nlayout = "nt"\n[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n',
    good=TORCH + '[dtypes]\na = "float16"\nb = "float16"\n',
)
def no_float8(candidate: "Candidate") -> Iterator[Finding]:
    dtype = candidate.spec.dtypes.a
    if candidate.torch and dtype in FLOAT8:
        yield Finding(KEY, f'torch = true with dtypes.a = "{dtype}"', ALLOWED)


@rule(
    "KG692",
    title="A gated linear unit has no function for PyTorch",
    reason="None of its kernels has been tried with tensors.",
    source="kgen",
    bad='[kernel]\nname = "glu"\nop = "glu"\n' + TORCH + WS + "persistent = true",
    good='[kernel]\nname = "glu"\nop = "glu"\n' + WS + "persistent = true",
)
def no_glu(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.torch and candidate.activation:
        yield Finding(KEY, 'torch = true with op = "glu"', "false")
