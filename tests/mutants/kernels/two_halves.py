"""C[m, n] = A[m, k] @ B[k, n] in bfloat16: K in two halves, added in float32.

n is smaller than a tile or a multiple of one. The mutants break the kernel by
replacing text.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

DTYPE = jnp.bfloat16
TILE_M, TILE_N, TILE_K = 64, 64, 64
ALIGNMENT = 8  # Elements: TMA takes strides that are multiples of 16 bytes.
TRANSFORMS = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


@functools.partial(jax.jit, static_argnames="interpret")
def matmul(a, b, *, interpret=None):
    """Returns A @ B; k a multiple of two tiles."""
    (m, k), (_, n) = a.shape, b.shape
    tiles_n = pl.cdiv(n, TILE_N)
    kernel = plgpu.kernel(
        functools.partial(_tile, half_steps=k // TILE_K // 2),
        out_type=jax.ShapeDtypeStruct((m, n + -n % ALIGNMENT), DTYPE),
        scratch_types={"out_smem": plgpu.SMEM((TILE_M, TILE_N), DTYPE)},
        grid=(m // TILE_M, tiles_n),
        grid_names=("m", "n"),
        interpret=interpret,
    )
    padded = jnp.pad(b, ((0, 0), (0, tiles_n * TILE_N - n)))
    return kernel(a, padded)[:, :n]


def _tile(a_gmem, b_gmem, out_gmem, out_smem, *, half_steps):
    m, n = lax.axis_index("m"), lax.axis_index("n")

    def half(first):
        def multiply(acc):
            _accumulate(acc, a_gmem, b_gmem, (m, n), steps=(first, half_steps))
            return acc[...]

        return pl.run_scoped(multiply, plgpu.ACC((TILE_M, TILE_N), jnp.float32))

    product = half(0) + half(half_steps)
    out_smem[...] = product.astype(DTYPE)
    plgpu.commit_smem()  # TMA must see the stores above.
    rows, columns = pl.ds(m * TILE_M, TILE_M), pl.ds(n * TILE_N, TILE_N)
    plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[rows, columns])  # Cut at the end.
    plgpu.wait_smem_to_gmem(0)  # SMEM must outlive the copy.


def _accumulate(acc, a_gmem, b_gmem, tile, *, steps):
    (m, n), (first, num_steps) = tile, steps

    def step(_, a_smem, b_smem):
        plgpu.wgmma(acc, a_smem, b_smem)
        plgpu.wgmma_wait(0)  # The slot is released when the step ends.

    plgpu.emit_pipeline(
        step,
        grid=(num_steps,),
        in_specs=[
            _block((TILE_M, TILE_K), lambda ki: (m, first + ki)),
            _block((TILE_K, TILE_N), lambda ki: (first + ki, n)),
        ],
        max_concurrent_steps=2,
    )(a_gmem, b_gmem)


def _block(shape, index_map):
    return plgpu.BlockSpec(shape, index_map, transforms=TRANSFORMS)
