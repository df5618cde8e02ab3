"""C[m, n] = A[m, k] @ B[k, n] in bfloat16: persistent and warp-specialised.

The ring of SMEM slots outlives a tile, so that TMA already loads the next one while the
product is stored. The mutants break the kernel by replacing text.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

DTYPE = jnp.bfloat16
TILE_M, TILE_N, TILE_K = 128, 64, 64
CTAS = 2
COMPUTE_WGS = 2
WG_M = TILE_M // COMPUTE_WGS
MEMORY_REGISTERS = 40
MAX_CONCURRENT_STEPS = 2
TRANSFORMS = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


@functools.partial(jax.jit, static_argnames="interpret")
def matmul(a, b, *, interpret=None):
    """Returns A @ B; k a multiple of two tiles, every CTA has two tiles or more."""
    (m, k), (_, n) = a.shape, b.shape
    return plgpu.kernel(
        functools.partial(
            _walk, tiles=(m // TILE_M, n // TILE_N), num_steps=k // TILE_K
        ),
        out_type=jax.ShapeDtypeStruct((m, n), DTYPE),
        grid=(CTAS,),
        grid_names=("cta",),
        num_threads=COMPUTE_WGS + 1,
        thread_name="wg",
        interpret=interpret,
    )(a, b)


def _walk(a_gmem, b_gmem, out_gmem, *, tiles, num_steps):
    num_tiles = tiles[0] * tiles[1]
    pipeline = functools.partial(
        plgpu.emit_pipeline_warp_specialized,
        grid=(num_steps,),
        in_specs=[
            _block((TILE_M, TILE_K), lambda ki: (0, ki)),
            _block((TILE_K, TILE_N), lambda ki: (ki, 0)),
        ],
        max_concurrent_steps=MAX_CONCURRENT_STEPS,
        num_compute_wgs=COMPUTE_WGS,
        memory_registers=MEMORY_REGISTERS,
        wg_axis="wg",
    )
    ring = pipeline(_nothing, compute_context=_nothing).get_allocations(a_gmem, b_gmem)
    out_slots = plgpu.SMEM((COMPUTE_WGS, WG_M, TILE_N), DTYPE, transforms=TRANSFORMS)

    @functools.partial(
        pl.run_scoped, ring=ring, out_smem=out_slots, collective_axes="wg"
    )
    def _(ring, out_smem):
        @plgpu.nd_loop((num_tiles,), collective_axes="cta")
        def _(tile):
            m, n = tile.index[0] // tiles[1], tile.index[0] % tiles[1]
            rows, columns = pl.ds(m * TILE_M, TILE_M), pl.ds(n * TILE_N, TILE_N)
            pipeline(
                _multiply,
                compute_context=functools.partial(
                    _store_product, out_smem, out_gmem.at[rows, columns]
                ),
                pipeline_state=_pipeline_state(tile),
            )(a_gmem.at[rows, :], b_gmem.at[:, columns], allocations=ring)

    plgpu.wait_smem_to_gmem(0)  # SMEM must outlive the copies.


def _multiply(_, a_smem, b_smem, acc):
    plgpu.wgmma(acc, a_smem.at[_wg_rows()], b_smem)
    plgpu.wgmma_wait(0)  # The slot is released when the step ends.
    return acc


def _store_product(out_smem, out_gmem, run_pipeline):
    def multiply(acc):
        run_pipeline(acc)
        return acc[...].astype(DTYPE)

    product = pl.run_scoped(multiply, plgpu.ACC((WG_M, TILE_N), jnp.float32))
    slot = out_smem.at[lax.axis_index("wg")]
    plgpu.wait_smem_to_gmem(0, wait_read_only=True)  # The tile before has left.
    slot[...] = product
    plgpu.commit_smem()  # TMA must see the stores above.
    plgpu.copy_smem_to_gmem(slot, out_gmem.at[_wg_rows()])


def _pipeline_state(tile):
    """START fills the ring, STEADY finds it filled, STOP also drains it."""
    first, last = tile.local_index == 0, tile.local_index == tile.num_local_steps - 1
    start, steady, stop = map(int, plgpu.PipelinePipeline)
    return jnp.where(first, start, jnp.where(last, stop, steady))


def _wg_rows():
    return pl.ds(lax.axis_index("wg") * WG_M, WG_M)


def _block(shape, index_map):
    return plgpu.BlockSpec(shape, index_map, transforms=TRANSFORMS)


def _nothing(*_, **__):
    """Stands in for a body where only the pipeline's allocations are asked for."""
