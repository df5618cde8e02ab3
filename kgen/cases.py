"""The sizes at which a module is verified, in tiles."""

import dataclasses
import functools
import itertools
import math

COUNTS = (1, 2, 3, 7)
"""Tiles along each dimension, all of them once."""


@functools.cache
def tile_counts(
    tile_m: int, tile_n: int, tile_k: int
) -> tuple[tuple[int, int, int], ...]:
    """Returns tiles along m, n and k: one, two, three and seven along each.

    Of all ways to combine them, the one with the fewest steps in which no case has two
    equal sizes, so that nothing is right by symmetry.
    """
    ways = [
        tuple(zip(COUNTS, n, k, strict=True))
        for n in itertools.permutations(COUNTS)
        for k in itertools.permutations(COUNTS)
    ]

    def cost(way: tuple[tuple[int, int, int], ...]) -> tuple[int, int]:
        sizes = [(m * tile_m, n * tile_n, k * tile_k) for m, n, k in way]
        return sum(len(set(size)) < 3 for size in sizes), sum(map(math.prod, way))

    return min(ways, key=cost)


def once_around(stages: int) -> tuple[tuple[int, int, int], ...]:
    """Returns the further tiles without which no case goes around a ring of `stages`."""
    return () if stages < max(COUNTS) else ((2, 1, stages + 1),)


def persistent(
    counts: tuple[tuple[int, int, int], ...], stages: int
) -> tuple[tuple[tuple[int, int, int], int], ...]:
    """Returns tiles along m, n and k, and the CTAs that share the output tiles.

    One CTA with all tiles, one tile for each CTA, equal and unequal shares; a ring
    that goes around twice in a tile, where one CTA has two tiles and one a single; and
    five tiles of one CTA: where warpgroups take turns, each waits for the other twice.
    """
    tiles = [m * n for m, n, _ in counts]
    shares = (1, tiles[1], math.ceil(tiles[2] / 3), unequal(tiles[3]))
    further = ((3, 1, 2 * stages), 2), ((1, 5, 2), 1)
    return (*zip(counts, shares, strict=True), *further)


def unequal(tiles: int, *, least: int = 1) -> int:
    """Returns the most CTAs that share tiles unequally; one if none do.

    A kernel takes no more CTAs than it needs for as many rounds, and so may take fewer
    than there are SMs: 3 for 6 tiles and 4 SMs.

    Args:
      tiles: Tiles of the output.
      least: How many of them each must have at least.
    """
    shares = (ctas for ctas in range(tiles // least, 1, -1) if tiles % ctas)
    return next(
        (ctas for ctas in shares if math.ceil(tiles / math.ceil(tiles / ctas)) == ctas),
        1,
    )


def edges(
    blocks: tuple[int, int, int], stages: int
) -> tuple[tuple[tuple[int, int, int], int], ...]:
    """Returns sizes that are no multiples of a block, and the CTAs that share the tiles.

    A single element; one less and one more than a block along each dimension, so that
    something is cut off on either side of the border; five whole blocks; fewer than a
    swizzle atom's 8 rows beside a ring that goes around twice; and primes.
    """
    m, n, k = blocks
    return (
        ((1, 1, 1), 1),
        ((m - 1, n + 1, 3 * k + 1), 1),
        ((m + 1, n - 1, k - 1), 2),
        ((m, 5 * n, k), 1),
        ((3, 2 * n + 7, 2 * stages * k - 3), 2),
        ((prime_from(2 * m + 3), prime_from(n // 2), prime_from(k + 3)), 2),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """A product of several matrices.

    Attributes:
      a_batch: Leading dimensions of A.
      b_batch: Leading dimensions of B.
      size: m, n and k.
      ctas: CTAs that share the tiles of a persistent kernel, or clusters of them; else 0.
    """

    a_batch: tuple[int, ...]
    b_batch: tuple[int, ...]
    size: tuple[int, int, int]
    ctas: int


def batches(
    blocks: tuple[int, int, int], stages: int, *, persistent: bool, any_edge: bool
) -> tuple[Batch, ...]:
    """Returns batches of small products.

    No batch at all; one of each operand; one of A or B alone; both repeated along
    another dimension. Tiles along each dimension are one, two or three, and steps more
    than `stages` in one case, in which a persistent kernel's ring goes around with two
    tiles of a CTA. Such a kernel has one CTA, one for each tile, and shares in which the
    border between two matrices falls to any place.
    """
    leading = (
        ((), ()),
        ((2,), (2,)),
        ((3,), ()),
        ((1,), (2,)),
        ((2, 1), (3,)),
    )
    counts = ((2, 1, 3), (1, 2, stages + 1), (3, 1, 1), (1, 3, 2), (1, 1, 2))
    shares = (1, 2, 2, 3, 6)
    m, n, k = blocks
    sizes = [(i * m, j * n, steps * k) for i, j, steps in counts]
    if any_edge:
        sizes = [
            (1, 1, 1),
            (m - 1, n + 1, stages * k + 1),
            (2 * m + 1, n - 1, k - 1),
            (m, 2 * n + 3, prime_from(k + 3)),
            (prime_from(m // 2), 3, 2 * k),
        ]
    return tuple(
        Batch(
            a_batch=a,
            b_batch=b,
            size=size,
            ctas=ctas * persistent,
        )
        for (a, b), size, ctas in zip(leading, sizes, shares, strict=True)
    )


def differentiated(
    units: tuple[int, int, int], blocks: tuple[int, int, int], stages: int
) -> tuple[tuple[tuple[int, int, int], int], ...]:
    """Returns sizes at which gradients are verified, and the CTAs that share the tiles.

    One with few tiles, and one in which every ring goes around: n and m are the depths
    of the gradients. Where sizes are multiples of nothing, one of a single element, too.

    Args:
      units: What m, n and k must be multiples of; ones if they are multiples of nothing.
      blocks: Rows, columns and depth of a tile.
      stages: Slots of the ring.
    """
    around = (stages + 1) * blocks[2]
    if units == (1, 1, 1):
        few = edges(blocks, stages)[1][0]
        prime = prime_from(around + 1)
        deep = (prime, prime_from(prime + 1), prime_from(blocks[2]))
        return (few, 1), (deep, 2), (units, 1)
    m, n, k = units
    whole = math.ceil(around / m) * m, math.ceil(around / n) * n, k
    return ((m, 2 * n, 3 * k), 1), (whole, 2)


def ragged(size: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns a somewhat smaller size, a multiple of nothing along any dimension."""
    m, n, k = size
    return m - 3, n - 5, k - 7


def prime_from(least: int) -> int:
    """Returns the smallest prime that is at least `least`."""
    return next(
        number
        for number in itertools.count(max(least, 2))
        if all(number % factor for factor in range(2, math.isqrt(number) + 1))
    )
