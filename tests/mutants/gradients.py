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

FORGOTTEN = Kind(
    GROUP, "activation not differentiated", "the cotangent passes it as it is"
)
AT_OUTPUT = Kind(
    GROUP, "differentiated at the output", "the output is kept in place of the product"
)
NOT_SUMMED = Kind(
    GROUP, "gradient of a bias not summed", "it is the cotangent of the first row"
)
NOT_STORED = Kind(
    GROUP, "output stored twice", "the kernel stores it where the product belongs"
)

BASE = ("gradients",)
WITH_CHAIN = ("gradients_chain",)

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
        FORGOTTEN,
        WITH_CHAIN,
        (("= of_product.astype(DTYPE)", "= cotangent.astype(DTYPE)"),),
    ),
    Fault(
        AT_OUTPUT, WITH_CHAIN, (("(a, b, terms, product)\n", "(a, b, terms, out)\n"),)
    ),
    Fault(NOT_SUMMED, WITH_CHAIN, (("tuple(of_terms)", "(of_product[0],)"),)),
    Fault(
        NOT_STORED,
        WITH_CHAIN,
        (("zip(results[: len(outs)]", "zip((results[:1] * 2)[: len(outs)]"),),
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
