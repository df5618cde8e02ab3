"""The raster visits every output tile once, whatever the grid."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

SIDES = (1, 2, 3, 8, 11)
GRIDS = tuple(itertools.product(SIDES, SIDES))
# As many for every grid, so that no operation is compiled twice.
INDICES = jnp.arange(max(SIDES) ** 2, dtype=jnp.int32)


@pytest.mark.parametrize("width", range(1, 10))
@pytest.mark.parametrize("dim", [0, 1], ids="mn")
def test_every_tile_is_visited_once(dim, width):
    for tiles in GRIDS:
        m, n = walk(tiles, dim, width)
        assert sorted(m * tiles[1] + n) == list(range(tiles[0] * tiles[1])), tiles


@pytest.mark.parametrize(("dim", "order"), [(0, "m"), (1, "n")])
def test_a_band_is_so_wide_along_the_order(dim, order):
    walked = dict(zip("mn", walk((3, 3), dim, 2), strict=True))
    along, across = walked[order], walked["n" if order == "m" else "m"]
    # To and fro: the next band, narrower here, begins where the first one ends.
    assert along.tolist() == [0, 1, 0, 1, 0, 1, 2, 2, 2]
    assert across.tolist() == [0, 0, 1, 1, 2, 2, 2, 1, 0]


def walk(tiles, dim, width):
    """Returns m and n of all tiles, in the order in which a kernel visits them."""
    one = functools.partial(
        plgpu.planar_snake, shape=tiles, minor_dim=dim, tile_width=width
    )
    m, n = jax.vmap(one)(INDICES)
    count = tiles[0] * tiles[1]
    return np.asarray(m)[:count], np.asarray(n)[:count]
