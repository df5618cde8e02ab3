"""Requests to the verifier, around one small kernel that the tests break."""

from pathlib import Path

from kgen.verify import Request, RequestCase

KERNELS = Path(__file__).parent / "execution" / "kernels"
SMALL_MATMUL = (KERNELS / "small_matmul.py").read_text(encoding="utf-8")
# 2 slots of A and of B, the output, 8 KiB each, and 2 barriers.
SMALL_SMEM_BYTES = 5 * 64 * 64 * 2 + 2 * 8
SIZES = ((128, 192, 128),)


def request(source=SMALL_MATMUL, sizes=SIZES, smem_bytes=None, **changes) -> Request:
    """Returns a request for a float16 matmul."""
    cases = tuple(
        RequestCase(m=m, n=n, k=k, smem_bytes=smem_bytes) for m, n, k in sizes
    )
    fields = {
        "name": "small_matmul",
        "source": source,
        "function": "matmul",
        "op": "matmul",
        "arch": "sm_90a",
        "layout": "nn",
        "operand_dtype": "float16",
        "out_dtype": "float16",
        "cases": cases,
    }
    return Request(**(fields | changes))


def broken(*replacements: tuple[str, str]) -> str:
    """Returns the small kernel with every text replaced that is named."""
    source = SMALL_MATMUL
    for old, new in replacements:
        assert old in source, old
        source = source.replace(old, new)
    return source
