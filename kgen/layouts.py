"""How the operands of a product lie in memory, and its result.

A layout is two letters: `t` of the first says that A is stored [k, m], of the second
that B is stored [n, k]; `n` says [m, k] and [k, n]. The result is [m, n] in the order
`row`; in the order `column` it is [n, m], the memory of a column-major C.
"""

from typing import Any

LAYOUTS = ("nn", "nt", "tn", "tt")
ROW, COLUMN = "row", "column"
OUT_ORDERS = (ROW, COLUMN)

type Pair = tuple[int, int]


def is_transposed(layout: str) -> tuple[bool, bool]:
    """Whether A is stored as [k, m], and whether B is stored as [n, k]."""
    return layout[0] == "t", layout[1] == "t"


def operand_shapes(layout: str, m: int, n: int, k: int) -> tuple[Pair, Pair]:
    """Returns the shapes of A and B as they are passed."""
    a, b = is_transposed(layout)
    return (k, m) if a else (m, k), (n, k) if b else (k, n)


def operand_dims(layout: str) -> tuple[str, str]:
    """Returns the names of A's and B's dimensions, such as `m, k` and `k, n`."""
    a, b = is_transposed(layout)
    return "k, m" if a else "m, k", "n, k" if b else "k, n"


def out_shape(order: str, m: int, n: int) -> Pair:
    """Returns the shape of the result as it is returned."""
    return (n, m) if order == COLUMN else (m, n)


def logical(layout: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Returns A as [..., m, k] and B as [..., k, n]: views of what is passed."""
    of_a, of_b = is_transposed(layout)
    return a.mT if of_a else a, b.mT if of_b else b


def stored(order: str, product: Any) -> Any:
    """Returns C, which is [..., m, n], as a function of this order returns it."""
    return product.mT if order == COLUMN else product


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the leading dimensions of a product of such operands.

    Raises:
      ValueError: they do not broadcast.
    """
    length = max(len(a), len(b))
    pairs = zip((1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b, strict=True)
    sizes = []
    for of_a, of_b in pairs:
        if 1 not in (of_a, of_b) and of_a != of_b:
            raise ValueError(f"batches of {[*a]} and {[*b]} do not broadcast")
        sizes.append(of_b if of_a == 1 else of_a)
    return tuple(sizes)
