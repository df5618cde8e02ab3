"""The sizes at which modules are verified, and the SMs that share their tiles."""

import itertools
import math

import pytest

from kgen import cases


def taken(tiles, sms):
    """Returns the CTAs that a persistent kernel takes."""
    return math.ceil(tiles / math.ceil(tiles / sms))


def test_unequal_shares_are_the_most_that_a_kernel_takes():
    assert [cases.unequal(tiles) for tiles in (1, 2, 3, 6, 7, 14)] == [1, 1, 2, 1, 4, 5]


@pytest.mark.parametrize("tiles", range(1, 60))
@pytest.mark.parametrize("least", [1, 2])
def test_ctas_with_unequal_shares_are_taken_and_differ_by_one_tile(tiles, least):
    ctas = cases.unequal(tiles, least=least)
    assert taken(tiles, ctas) == ctas
    if ctas > 1:
        assert tiles % ctas
        assert tiles // ctas >= least


SIZES = [*itertools.product((64, 128), (64, 128, 256), (64, 128))]


@pytest.mark.parametrize("sizes", SIZES)
def test_persistent_kernels_are_verified_with_equal_and_unequal_shares(sizes):
    shared = cases.persistent(cases.tile_counts(*sizes), stages=4)
    ctas = [(m * n, sms) for (m, n, _), sms in shared]
    assert all(taken(tiles, sms) == sms for tiles, sms in ctas)
    assert any(1 < sms < tiles and tiles % sms == 0 for tiles, sms in ctas)
    # One CTA with a single tile beside one with two, and more of either.
    assert {(3, 2)} < {(tiles, sms) for tiles, sms in ctas if tiles % sms}


@pytest.mark.parametrize("any_edge", [False, True])
def test_persistent_batches_are_verified_with_unequal_shares(any_edge):
    blocks = (128, 64, 64)
    batches = cases.batches(blocks, 3, persistent=True, any_edge=any_edge)
    shared, around = [], []
    for each in batches:
        matrices = math.prod(
            map(
                max,
                itertools.zip_longest(
                    each.a_batch[::-1], each.b_batch[::-1], fillvalue=1
                ),
            )
        )
        rows, columns = (
            math.ceil(s / b) for s, b in zip(each.size[:2], blocks[:2], strict=True)
        )
        shared.append((matrices * rows * columns, each.ctas))
        if math.ceil(each.size[2] / blocks[2]) > 3:
            around.append(shared[-1])
    assert all(taken(tiles, ctas) == ctas for tiles, ctas in shared)
    assert any(tiles % ctas for tiles, ctas in shared)
    assert any(tiles == ctas > 1 for tiles, ctas in shared)
    # A ring that has gone around holds the next tile of the same CTA.
    assert any(tiles > ctas for tiles, ctas in around)
