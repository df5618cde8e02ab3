"""What any function of a file stands for, which is imported where it lies."""

import functools
from collections.abc import Sequence
from pathlib import Path

from kgen import module_text
from kgen.errors import UsageError
from kgen.shapes import parse_operands, parse_sizes, refuse_nothing
from kgen.targets import source
from kgen.targets.asked import Asked, Target
from kgen.verify.request import (
    DTYPES,
    FUNCTION,
    MATMUL,
    OperandCase,
    Request,
    RequestCase,
)

ARCH = "sm_90a"
"""What a file is lowered for if it does not say."""


def of_function(path: Path, name: str, asked: Asked) -> Target:
    """Asks about any function of a file, which is imported where it lies."""
    text = source.read(path)
    names = module_text.functions(text)
    for needed in filter(None, (name or "''", asked.reference)):
        if needed not in names:
            offered = ", ".join(module_text.offered(text))
            raise UsageError(
                f"{path} has no function {needed}\n"
                f"  allowed: {offered or 'none: it defines no functions'}"
            )
    if not asked.shapes:
        raise UsageError(
            f"--shape is missing for {path}:{name}\n"
            '  hint: --shape "float16[256,512] float16[512,128]" names its operands,'
            " and --shape 256,128,512 a matmul's m, n and k"
        )
    sizes = [parse_sizes(shape) for shape in asked.shapes]
    for shape, size in zip(asked.shapes, sizes, strict=True):
        refuse_nothing(shape, size or ())
    ask = functools.partial(
        Request,
        name=source.module_name(path),
        source=text,
        function=name,
        arch=ARCH,
        path=str(path.absolute()),
    )
    if None not in sizes and asked.reference is None:
        if asked.dtype not in DTYPES:
            raise UsageError(f"--dtype must be one of {', '.join(DTYPES)}")
        matmul = tuple(RequestCase(m=s[0], n=s[1], k=s[2]) for s in sizes if s)
        request = ask(op=MATMUL, operand_dtype=asked.dtype, cases=matmul)
    else:
        _refuse_sizes(asked, sizes)
        reference = asked.reference or ("reference" if "reference" in names else "")
        operands = tuple(
            OperandCase(operands=parse_operands(shape)) for shape in asked.shapes
        )
        request = ask(op=FUNCTION, reference=reference, cases=operands)
    return Target(label=f"{path}:{name}", request=request, path=str(path))


def _refuse_sizes(asked: Asked, sizes: Sequence[tuple[int, int, int] | None]) -> None:
    """Refuses three sizes beside operands or a reference."""
    for text, size in zip(asked.shapes, sizes, strict=True):
        if size is not None:
            raise UsageError(
                f"--shape {text!r}: three sizes stand for a matmul, and go neither with"
                " operands nor with --reference"
            )
