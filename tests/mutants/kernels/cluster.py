"""C[m, n] = A[m, k] @ B[k, n] in bfloat16: the CTAs of a cluster share A's tiles.

Two neighbours along n load half of a tile of A each, for both. The mutants break the
kernel by replacing text.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

DTYPE = jnp.bfloat16
TILE_M, TILE_N, TILE_K = 128, 64, 64
CLUSTER = 2
COMPUTE_WGS = 2
WG_M = TILE_M // COMPUTE_WGS
TRANSFORMS = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


@functools.partial(jax.jit, static_argnames="interpret")
def matmul(a, b, *, interpret=None):
    """Returns A @ B; n a multiple of CLUSTER tiles."""
    (m, k), (_, n) = a.shape, b.shape
    return plgpu.kernel(
        functools.partial(_tile, num_steps=k // TILE_K),
        out_type=jax.ShapeDtypeStruct((m, n), DTYPE),
        scratch_types={
            "out_smem": plgpu.SMEM(
                (COMPUTE_WGS, WG_M, TILE_N), DTYPE, transforms=TRANSFORMS
            )
        },
        grid=(m // TILE_M, n // TILE_N // CLUSTER),
        grid_names=("m", "n"),
        cluster=(CLUSTER,),
        cluster_names=("neighbour",),
        num_threads=COMPUTE_WGS + 1,
        thread_name="wg",
        interpret=interpret,
    )(a, b)


def _tile(a_gmem, b_gmem, out_gmem, out_smem, *, num_steps):
    m = lax.axis_index("m")
    n = lax.axis_index("n") * CLUSTER + lax.axis_index("neighbour")
    rows, columns = pl.ds(m * TILE_M, TILE_M), pl.ds(n * TILE_N, TILE_N)
    plgpu.emit_pipeline_warp_specialized(
        _multiply,
        grid=(num_steps,),
        in_specs=[
            _block((TILE_M, TILE_K), lambda ki: (m, ki), "neighbour"),
            _block((TILE_K, TILE_N), lambda ki: (ki, n)),
        ],
        max_concurrent_steps=2,
        num_compute_wgs=COMPUTE_WGS,
        memory_registers=40,
        wg_axis="wg",
        compute_context=functools.partial(
            _store_product, out_smem, out_gmem.at[rows, columns]
        ),
    )(a_gmem, b_gmem)


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
    slot[...] = product
    plgpu.commit_smem()  # TMA must see the stores above.
    plgpu.copy_smem_to_gmem(slot, out_gmem.at[_wg_rows()])
    plgpu.wait_smem_to_gmem(0)  # SMEM must outlive the copy.


def _wg_rows():
    return pl.ds(lax.axis_index("wg") * WG_M, WG_M)


def _block(shape, index_map, *collective_axes):
    return plgpu.BlockSpec(
        shape, index_map, transforms=TRANSFORMS, collective_axes=collective_axes
    )
