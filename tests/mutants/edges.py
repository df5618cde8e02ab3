"""Faults at the edge, where sizes are no multiples of a tile."""

from . import indices
from .model import Fault, Kind

GROUP = "edges"
NOT_CUT = Kind(GROUP, "padding not cut off", "the result has rows or columns too many")
NOT_PADDED = Kind(GROUP, "operand not padded", "TMA takes no such rows")
PADDED_BEFORE = Kind(
    GROUP, "padded at the wrong end", "zeros come first, and the last elements are lost"
)
ONE_PADDED_ELSEWHERE = Kind(
    GROUP, "padded with other than zeros", "what is beyond the end of K is added"
)
ONE_TILE = Kind(
    GROUP, "second tile not padded", "beyond the only one TMA clips nothing"
)

ANY = ("any_edge",)

FAULTS = (
    Fault(NOT_CUT, ANY, (("(_pad(a), _pad(b)))[:m, :n]", "(_pad(a), _pad(b)))"),)),
    Fault(NOT_PADDED, ANY, (("_pad(a), ", "a, "),)),
    Fault(
        PADDED_BEFORE,
        ANY,
        (
            (
                "((0, rows - height), (0, columns - width))",
                "((rows - height, 0), (columns - width, 0))",
            ),
        ),
    ),
    Fault(
        ONE_PADDED_ELSEWHERE,
        ANY,
        (
            (
                "(0, columns - width)))",
                "(0, columns - width)), constant_values=1)",
            ),
        ),
    ),
    Fault(
        indices.LAST_K_DROPPED,
        ANY,
        (("num_steps=pl.cdiv(k, TILE_K)", "num_steps=k // TILE_K"),),
    ),
    Fault(ONE_TILE, ("any_edge_pieces",), ((", (0, STORE_N + 1))", ")"),)),
    Fault(indices.LAST_COLUMN_LOST, ANY, (("pl.cdiv(n, TILE_N)", "n // TILE_N"),)),
)
