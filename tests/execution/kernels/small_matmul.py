"""C[m, n] = A[m, k] @ B[k, n] in float16, 64x64 tiles: a kernel for kgen's tests.

The tests break it by replacing text, so that each fault stands in one line.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

DTYPE = jnp.float16
TILE_M, TILE_N, TILE_K = 64, 64, 64
STAGES = 2
DELAY_RELEASE = 0
TRANSFORMS = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


def matmul(a, b, *, interpret=None):
    """Returns A @ B."""
    (m, k), (_, n) = a.shape, b.shape
    return plgpu.kernel(
        functools.partial(_tile, steps=k // TILE_K),
        out_type=jax.ShapeDtypeStruct((m, n), DTYPE),
        scratch_types=[
            plgpu.SMEM((TILE_M, TILE_N), DTYPE, transforms=TRANSFORMS),
        ],
        grid=(m // TILE_M, n // TILE_N),
        grid_names=("m", "n"),
        interpret=interpret,
    )(a, b)


def _tile(a_gmem, b_gmem, out_gmem, out_smem, *, steps):
    m, n = lax.axis_index("m"), lax.axis_index("n")

    def accumulate(acc):
        def step(_, a_smem, b_smem):
            plgpu.wgmma(acc, a_smem, b_smem)
            plgpu.wgmma_wait(0)

        plgpu.emit_pipeline(
            step,
            grid=(steps,),
            in_specs=[
                _block((TILE_M, TILE_K), lambda ki: (m, ki)),
                _block((TILE_K, TILE_N), lambda ki: (ki, n)),
            ],
            max_concurrent_steps=STAGES,
        )(a_gmem, b_gmem)
        return acc[...]

    acc = pl.run_scoped(accumulate, plgpu.ACC((TILE_M, TILE_N), jnp.float32))
    out_smem[...] = acc.astype(DTYPE)
    plgpu.commit_smem()
    rows, columns = pl.ds(m * TILE_M, TILE_M), pl.ds(n * TILE_N, TILE_N)
    plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[rows, columns])
    plgpu.wait_smem_to_gmem(0)


def _block(shape, index_map):
    return plgpu.BlockSpec(
        shape, index_map, transforms=TRANSFORMS, delay_release=DELAY_RELEASE
    )
