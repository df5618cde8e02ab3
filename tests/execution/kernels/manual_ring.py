"""C[m, n] = A[m, k] @ B[k, n] in float16 through a ring of the kernel's own.

One warpgroup loads 64x64 tiles, another one multiplies: a kernel for kgen's tests, which
break it by replacing text, so that each fault stands in one line.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

DTYPE = jnp.float16
TILE = 64
STAGES = 2
TRANSFORMS = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


def matmul(a, b, *, interpret=None):
    """Returns A @ B."""
    (m, k), (_, n) = a.shape, b.shape
    ring = plgpu.SMEM((STAGES, TILE, TILE), DTYPE, transforms=TRANSFORMS)
    return plgpu.kernel(
        functools.partial(_tile, steps=k // TILE),
        out_type=jax.ShapeDtypeStruct((m, n), DTYPE),
        scratch_types={
            "a_ring": ring,
            "b_ring": ring,
            "out_smem": plgpu.SMEM((TILE, TILE), DTYPE, transforms=TRANSFORMS),
            "loaded": plgpu.Barrier(num_arrivals=2, num_barriers=STAGES),
            "released": plgpu.Barrier(num_arrivals=1, num_barriers=STAGES),
        },
        grid=(m // TILE, n // TILE),
        grid_names=("m", "n"),
        num_threads=2,
        thread_name="wg",
        interpret=interpret,
    )(a, b)


def _tile(
    a_gmem, b_gmem, out_gmem, a_ring, b_ring, out_smem, loaded, released, *, steps
):
    rows = pl.ds(lax.axis_index("m") * TILE, TILE)
    columns = pl.ds(lax.axis_index("n") * TILE, TILE)

    @pl.when(lax.axis_index("wg") == 1)
    def _load():
        @pl.loop(0, steps)
        def _step(step):
            slot = lax.rem(step, STAGES)

            @pl.when(step >= STAGES)
            def _wait():
                plgpu.barrier_wait(released.at[slot])

            ks = pl.ds(step * TILE, TILE)
            a_tile = a_gmem.at[rows, ks]
            b_tile = b_gmem.at[ks, columns]
            plgpu.copy_gmem_to_smem(a_tile, a_ring.at[slot], loaded.at[slot])
            plgpu.copy_gmem_to_smem(b_tile, b_ring.at[slot], loaded.at[slot])

    @pl.when(lax.axis_index("wg") == 0)
    def _multiply():
        def accumulate(acc):
            @pl.loop(0, steps)
            def _step(step):
                slot = lax.rem(step, STAGES)
                plgpu.barrier_wait(loaded.at[slot])
                plgpu.wgmma(acc, a_ring.at[slot], b_ring.at[slot])
                plgpu.wgmma_wait(0)

                @pl.when(step + STAGES < steps)
                def _release():
                    plgpu.barrier_arrive(released.at[slot])

            return acc[...]

        acc = pl.run_scoped(accumulate, plgpu.ACC((TILE, TILE), jnp.float32))
        out_smem[...] = acc.astype(DTYPE)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[rows, columns])
        plgpu.wait_smem_to_gmem(0)
