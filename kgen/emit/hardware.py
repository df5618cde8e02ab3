"""What a module says about functions of which the hardware has its own."""

import textwrap
from collections.abc import Set

from kgen.emit.literals import LINE_LENGTH
from kgen.epilogue.steps import TRANSCENDENTAL
from kgen.plan.dtypes import PRECISION
from kgen.plan.model import MatmulPlan

TANH = frozenset({"tanh", "softcap"})
"""Steps that take a tanh; the others that are transcendental make do with exponentials."""
TANH_BITS = 11


def approximated(plan: MatmulPlan, used: Set[str]) -> list[str]:
    """Returns in words how close the hardware's functions are, in lines of a comment.

    Args:
      plan: The plan.
      used: Steps that the kernel applies.
    """
    bits = PRECISION[plan.out_dtype]
    sentences = []
    if used & (TRANSCENDENTAL - TANH):
        sentences.append(
            "The hardware's own exponentials: their error is far below "
            f"{plan.out_dtype}'s rounding."
        )
    if used & TANH:
        sentences.append(
            f"The hardware's own tanh is good to {TANH_BITS} bits; {plan.out_dtype} "
            f"keeps {bits}."
            if bits < TANH_BITS
            else f"The hardware's own tanh is good to {TANH_BITS} bits, as many as "
            f"{plan.out_dtype} keeps: it may be as far off as rounding is."
        )
    return textwrap.wrap(" ".join(sentences), LINE_LENGTH - len("# "))
