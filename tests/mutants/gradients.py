"""Faults of gradients: which product of what, and which of them is whose."""

from .model import Fault, Kind

GROUP = "gradients"
SWAPPED = Kind(GROUP, "gradients swapped", "A gets the gradient of B, and B that of A")
UNTURNED = Kind(
    GROUP, "operand not transposed", "a gradient is a product in the wrong layout"
)
WRONG_OPERAND = Kind(
    GROUP, "gradient of the wrong operand", "the cotangent is multiplied with A twice"
)
ORDER = Kind(
    GROUP, "factors of a gradient swapped", "a gradient is the transposed product"
)
NOT_BACK = Kind(
    GROUP, "cotangent replaced", "the gradient of a sum is taken, whatever follows it"
)

BASE = ("gradients",)

FAULTS = (
    Fault(SWAPPED, BASE, (("return grad_a, grad_b", "return grad_b, grad_a"),)),
    Fault(
        UNTURNED,
        BASE,
        (('_product(cotangent, b, "nt"', '_product(cotangent, b, "nn"'),),
        "of A",
    ),
    Fault(
        UNTURNED,
        BASE,
        (('_product(a, cotangent, "tn"', '_product(a, cotangent, "nn"'),),
        "of B",
    ),
    Fault(WRONG_OPERAND, BASE, (("_product(cotangent, b,", "_product(cotangent, a,"),)),
    Fault(
        ORDER, BASE, (('_product(a, cotangent, "tn"', '_product(cotangent, a, "tn"'),)
    ),
    Fault(
        NOT_BACK,
        BASE,
        (
            (
                "    a, b = operands\n",
                "    a, b = operands\n    cotangent = jnp.ones_like(cotangent)\n",
            ),
        ),
    ),
)
