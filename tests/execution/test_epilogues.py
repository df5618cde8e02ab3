"""Kernels with epilogues, lowered and simulated: every step, on every schedule."""

import jax
import jax.numpy as jnp
import pytest
from made import module, plan
from oldest import every_third

WS = "[schedule]\nwarp_specialized = true\n"
TILE = "[tile]\nm = {}\nn = {}\n"
ANY = '[shapes]\nedge = "any"\n'
ONE_WG = WS + "num_compute_wgs = 1\n"


def chain(*steps):
    return "".join(f"[[epilogue]]\nop = {step}\n" for step in steps)


VECTORS = chain(
    '"scale"',
    '"scale_rows"',
    '"scale_columns"',
    '"bias"',
    '"bias"\nalong = "m"\nargument = "row_bias"\ndtype = "float32"',
    '"save"',
    '"relu"',
)
MATRIX = chain('"residual"\nbeta = 0.5', '"clamp"\nmin = -40\nmax = 60', '"silu"')
CASTS = chain(
    '"cast"\ndtype = "float16"', '"bias"', '"cast"\ndtype = "bfloat16"', '"relu"'
)
SMOOTH = chain('"softcap"\ncap = 3.0', '"tanh"', '"sigmoid"')

CASES = {
    "pipelined": (TILE.format(64, 128) + CASTS, (2, 1, 5)),
    "float32_out": (
        '[dtypes]\nout = "float32"\n' + TILE.format(64, 64) + SMOOTH,
        (1, 2, 3),
    ),
    "gelu_erf": (TILE.format(64, 64) + chain('"gelu"\napproximate = "erf"'), (1, 2, 3)),
    "split_m": (TILE.format(128, 64) + WS + MATRIX, (1, 2, 5)),
    "split_n": (TILE.format(64, 128) + WS + 'split = "n"\n' + VECTORS, (2, 1, 5)),
    "persistent": (
        TILE.format(64, 64) + ONE_WG + "persistent = true\n" + VECTORS,
        (3, 1, 4),
    ),
    "cluster": (
        TILE.format(64, 64) + ONE_WG + "[cluster]\nm = 2\n" + MATRIX,
        (2, 1, 3),
    ),
    "split_k": (
        TILE.format(64, 64) + ONE_WG + "split_k = 2\n" + VECTORS + chain('"gelu"'),
        (2, 1, 4),
    ),
    "swapped": (
        TILE.format(16, 128) + WS + "swap_operands = true\n" + VECTORS,
        (2, 1, 3),
    ),
    "any_pipelined": (ANY + TILE.format(64, 64) + VECTORS, (2, 1, 3)),
    "any_split_m": (ANY + TILE.format(128, 64) + WS + MATRIX, (2, 1, 2)),
    "any_split_n": (
        ANY + TILE.format(64, 128) + WS + 'split = "n"\n[store]\nn = 32\n' + VECTORS,
        (2, 1, 2),
    ),
    "any_batched": (
        ANY + "batch = true\n" + TILE.format(64, 64) + ONE_WG + VECTORS,
        (2, 2, 2),
    ),
    "any_split_k": (
        ANY + TILE.format(64, 64) + ONE_WG + "split_k = 2\n" + VECTORS,
        (2, 1, 3),
    ),
    "any_persistent_cluster": (
        ANY
        + TILE.format(64, 64)
        + ONE_WG
        + "persistent = true\n[cluster]\nm = 2\n"
        + MATRIX,
        (3, 1, 2),
    ),
    "any_swapped": (
        ANY + TILE.format(16, 64) + ONE_WG + "swap_operands = true\n" + VECTORS,
        (3, 1, 2),
    ),
}


@pytest.mark.parametrize("name", every_third((each,) for each in CASES))
def test_it_is_right(tmp_path, name):
    text, tiles = CASES[name]
    made = module(tmp_path, plan(tmp_path, text, f"epilogue_{name}"))
    # Where no tile needs to be whole, the last ones are not.
    request = made.at(tiles, less=(5, 3, 7), leading=((2,), ()))
    made.lower(request)
    made.simulate(request)


COLUMNS = chain('"scale_columns"', '"bias"')


@pytest.fixture(scope="module")
def of_columns(tmp_path_factory):
    directory = tmp_path_factory.mktemp("columns")
    text = ANY + TILE.format(64, 64) + ONE_WG + COLUMNS
    return module(directory, plan(directory, text, "of_columns"))


@pytest.mark.parametrize("missing", [8, 16, 56, 57, 63])
def test_columns_of_a_tile_that_is_not_whole_are_read_by_eights(of_columns, missing):
    # With 8 less the last eight of the tile begins where the vector ends.
    of_columns.simulate(of_columns.at((1, 1, 1), (1, 2, 1), less=(0, missing, 0)))


@pytest.mark.parametrize(("n", "padded"), [(64, 64), (120, 120), (121, 128), (3, 8)])
def test_columns_are_padded_to_eights_alone(of_columns, n, padded, monkeypatch):
    given = []

    def record(*operands):
        given.extend(operands)
        return operands

    matmul = of_columns.function.__wrapped__
    monkeypatch.setitem(matmul.__globals__, "_forward_only", record)
    a, b = jnp.ones((64, 64), jnp.bfloat16), jnp.ones((64, n), jnp.bfloat16)
    bias = jnp.ones(n, jnp.bfloat16)
    jax.eval_shape(matmul, a, b, jnp.ones(n), bias)
    assert [each.shape for each in given[2:]] == [(padded,)] * 2
