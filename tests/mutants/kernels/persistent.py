"""C[m, n] = A[m, k] @ B[k, n] in bfloat16: few CTAs walk the output in raster groups.

The tiles of a CTA take turns in two SMEM slots on their way out. The mutants break the
kernel by replacing text, so that each fault stands in one line.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

DTYPE = jnp.bfloat16
TILE_M, TILE_N, TILE_K = 64, 64, 64
CTAS = 2
GROUP_M = 2  # Rows of tiles that are walked together, column by column.
MAX_CONCURRENT_STEPS = 2
STORE_SLOTS = 2
TRANSFORMS = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


@functools.partial(jax.jit, static_argnames="interpret")
def matmul(a, b, *, interpret=None):
    """Returns A @ B."""
    (m, k), (_, n) = a.shape, b.shape
    return plgpu.kernel(
        functools.partial(
            _walk, tiles=(m // TILE_M, n // TILE_N), num_steps=k // TILE_K
        ),
        out_type=jax.ShapeDtypeStruct((m, n), DTYPE),
        scratch_types={
            "out_smem": plgpu.SMEM(
                (STORE_SLOTS, TILE_M, TILE_N), DTYPE, transforms=TRANSFORMS
            )
        },
        grid=(CTAS,),
        grid_names=("cta",),
        interpret=interpret,
    )(a, b)


def _walk(a_gmem, b_gmem, out_gmem, out_smem, *, tiles, num_steps):
    num_tiles = tiles[0] * tiles[1]

    @plgpu.nd_loop((num_tiles,), collective_axes="cta")
    def _(tile):
        m, n = _raster(tile.index[0], *tiles)

        def multiply(acc):
            _accumulate(acc, a_gmem, b_gmem, (m, n), num_steps)
            return acc[...].astype(DTYPE)

        product = pl.run_scoped(multiply, plgpu.ACC((TILE_M, TILE_N), jnp.float32))
        slot = out_smem.at[tile.local_index % STORE_SLOTS]
        # The copy that used this slot before must have read it.
        plgpu.wait_smem_to_gmem(STORE_SLOTS - 1, wait_read_only=True)
        slot[...] = product
        plgpu.commit_smem()  # TMA must see the stores above.
        rows, columns = pl.ds(m * TILE_M, TILE_M), pl.ds(n * TILE_N, TILE_N)
        plgpu.copy_smem_to_gmem(slot, out_gmem.at[rows, columns])

    plgpu.wait_smem_to_gmem(0)  # SMEM must outlive the copies.


def _raster(index, tiles_m, tiles_n):
    """Returns the tile that is visited as number `index`; the last group may be low."""
    group, within = index // (GROUP_M * tiles_n), index % (GROUP_M * tiles_n)
    height = jnp.minimum(GROUP_M, tiles_m - group * GROUP_M)
    return group * GROUP_M + lax.rem(within, height), lax.div(within, height)


def _accumulate(acc, a_gmem, b_gmem, tile, num_steps):
    def step(_, a_smem, b_smem):
        plgpu.wgmma(acc, a_smem, b_smem)
        plgpu.wgmma_wait(0)  # The slot is released when the step ends.

    plgpu.emit_pipeline(
        step,
        grid=(num_steps,),
        in_specs=[
            _block((TILE_M, TILE_K), lambda ki: (tile[0], ki)),
            _block((TILE_K, TILE_N), lambda ki: (ki, tile[1])),
        ],
        max_concurrent_steps=MAX_CONCURRENT_STEPS,
    )(a_gmem, b_gmem)


def _block(shape, index_map):
    return plgpu.BlockSpec(shape, index_map, transforms=TRANSFORMS)
