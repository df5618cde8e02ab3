"""The sizes that `--shape` names."""

import re
from collections.abc import Sequence

from kgen.errors import UsageError

SHORT = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "i8": "int8",
    "i32": "int32",
    "u8": "uint8",
    "u32": "uint32",
}
DTYPES = (*SHORT.values(), "bool", "int16", "uint16")

MOST_MATRICES = 2**31 - 1
"""Of a batch: what XLA counts with."""

SIZES = (
    "M,N,K such as 4096,4096,4096, each of 12 digits at most;"
    " 64xM,N,K for a batch of 64"
)
"""What the sizes of a matmul look like."""

_SIZES = re.compile(
    r"(?P<batch>(?:[0-9]{1,12}x)*)"
    r"(?P<m>[0-9]{1,12}),(?P<n>[0-9]{1,12}),(?P<k>[0-9]{1,12})"
)
_OPERAND = re.compile(r"([a-z][a-z0-9_]*)\[([0-9]{1,12}(?:,[0-9]{1,12})*)?\]")
_BETWEEN = re.compile(r"[\s;]+")


def parse_sizes(text: str) -> tuple[int, int, int] | None:
    """Returns m, n and k of a text such as `256,512,1024`; None if it is none."""
    found = parse_batch(text)
    return None if found is None or found[0] else found[1]


def parse_batch(text: str) -> tuple[tuple[int, ...], tuple[int, int, int]] | None:
    """Returns leading dimensions, and m, n and k.

    Args:
      text: Such as `64x256,512,1024` for 64 products, or `8x12x256,512,1024`; None is
        returned for what is none of these.
    """
    match = _SIZES.fullmatch(text.replace(" ", ""))
    if match is None:
        return None
    batch = tuple(int(size) for size in match["batch"].split("x") if size)
    return batch, (int(match["m"]), int(match["n"]), int(match["k"]))


def read_batch(text: str) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """Returns leading dimensions, and m, n and k, as `parse_batch` does.

    Raises:
      UsageError: the text is no size.
    """
    found = parse_batch(text)
    if found is None:
        raise UsageError(
            f"--shape {text!r} is no size\n  allowed: {SIZES}{hint_of_sign(text)}"
        )
    return found


def hint_of_sign(text: str) -> str:
    """Returns a last line about negative sizes, if a text has some."""
    return "\n  hint: sizes must be positive" if re.search(r"-[0-9]", text) else ""


def refuse_nothing(text: str, sizes: Sequence[int]) -> None:
    """Refuses sizes of which there is nothing to multiply, and so no kernel to run.

    Args:
      text: The `--shape`.
      sizes: All of its sizes.

    Raises:
      UsageError: one is zero.
    """
    if 0 in sizes:
        raise UsageError(
            f"--shape {text!r} is a product of nothing\n"
            "  allowed: M,N,K of 1 or more, such as 4096,4096,4096"
        )


def parse_operands(text: str) -> tuple[str, ...]:
    """Returns the operands of a text such as `f16[256,512] f16[512,128]`.

    Raises:
      UsageError: it is no list of operands.
    """
    # Blanks within the brackets separate nothing.
    packed = re.sub(r"\s*([\[,\]])\s*", r"\1", text.strip()).replace("]", "] ")
    operands = [_operand(part, text) for part in _BETWEEN.split(packed) if part]
    if not operands:
        raise _not_operands(text)
    return tuple(operands)


def _operand(part: str, text: str) -> str:
    match = _OPERAND.fullmatch(part)
    if match is None:
        raise _not_operands(text)
    dtype = SHORT.get(match[1], match[1])
    if dtype not in DTYPES:
        raise UsageError(
            f"--shape {text!r}: {match[1]!r} is not a dtype\n"
            f"  allowed: {', '.join(sorted((*DTYPES, *SHORT)))}"
        )
    return f"{dtype}[{match[2] or ''}]"


def _not_operands(text: str) -> UsageError:
    return UsageError(
        f"--shape {text!r} is neither three sizes nor a list of operands\n"
        "  allowed: M,N,K such as 256,512,1024, or one DTYPE[SIZES] for each operand\n"
        '  hint: --shape "float16[256,512] float16[512,128]"'
        f"{hint_of_sign(text)}"
    )
