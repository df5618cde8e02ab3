"""The gradients of a product with respect to its operands: products themselves.

With C = A @ B and the cotangent dC of C, the gradients are dA = dC @ B.T and
dB = A.T @ dC. How A and B lie in memory decides what is stored transposed in these; see
`kgen.layouts` for the layouts' names.
"""

import dataclasses
import math

COTANGENT = "cotangent"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gradient:
    """The product that is the gradient of one operand, as that is stored.

    Attributes:
      of: The operand, `a` or `b`.
      layout: Layout of the product.
      operands: What is multiplied: `cotangent`, `a` or `b`.
      sizes: Which of m, n and k are the rows, columns and depth of the product.
    """

    of: str
    layout: str
    operands: tuple[str, str]
    sizes: str

    def size(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """Returns rows, columns and depth of the product."""
        of = {"m": m, "n": n, "k": k}
        rows, columns, depth = (of[axis] for axis in self.sizes)
        return rows, columns, depth


def _gradient(of: str, layout: str, first: str, second: str, sizes: str) -> Gradient:
    return Gradient(of=of, layout=layout, operands=(first, second), sizes=sizes)


_GRADIENTS = {
    "nn": (
        _gradient("a", "nt", COTANGENT, "b", "mkn"),
        _gradient("b", "tn", "a", COTANGENT, "knm"),
    ),
    "nt": (
        _gradient("a", "nn", COTANGENT, "b", "mkn"),
        _gradient("b", "tn", COTANGENT, "a", "nkm"),
    ),
    "tn": (
        _gradient("a", "nt", "b", COTANGENT, "kmn"),
        _gradient("b", "nn", "a", COTANGENT, "knm"),
    ),
    "tt": (
        _gradient("a", "tt", "b", COTANGENT, "kmn"),
        _gradient("b", "tt", COTANGENT, "a", "nkm"),
    ),
}


def gradients(layout: str) -> tuple[Gradient, Gradient]:
    """Returns the gradients of A and of B of a product in some layout."""
    return _GRADIENTS[layout]


def units(layout: str, blocks: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns what m, n and k must be multiples of, for the product and its gradients.

    Args:
      layout: Layout of the product.
      blocks: Rows, columns and depth that divide those of every product.
    """
    m, n, k = blocks
    needed = {"m": m, "n": n, "k": k}
    for gradient in gradients(layout):
        for axis, block in zip(gradient.sizes, blocks, strict=True):
            needed[axis] = math.lcm(needed[axis], block)
    return needed["m"], needed["n"], needed["k"]
