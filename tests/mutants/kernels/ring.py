"""C[m, n] = A[m, k] @ B[k, n] in bfloat16: a ring of SMEM slots with barriers by hand.

One warpgroup loads, two multiply 64 rows each. The mutants break it by replacing text,
so that each fault stands in one line.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

DTYPE = jnp.bfloat16
TILE_M, TILE_N, TILE_K = 128, 64, 64
COMPUTE_WGS = 2
WG_M = TILE_M // COMPUTE_WGS
MEMORY_REGISTERS, COMPUTE_REGISTERS = 40, 232
STAGES = 3
LOADS = 2  # Copies that fill a slot: one of A and one of B.
TRANSFORMS = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


@functools.partial(jax.jit, static_argnames="interpret")
def matmul(a, b, *, interpret=None):
    """Returns A @ B."""
    (m, k), (_, n) = a.shape, b.shape
    return plgpu.kernel(
        functools.partial(_tile, num_steps=k // TILE_K),
        out_type=jax.ShapeDtypeStruct((m, n), DTYPE),
        scratch_types={
            "a_smem": _slots(STAGES, TILE_M, TILE_K),
            "b_smem": _slots(STAGES, TILE_K, TILE_N),
            "out_smem": _slots(COMPUTE_WGS, WG_M, TILE_N),
            "loaded": plgpu.Barrier(num_arrivals=LOADS, num_barriers=STAGES),
            "consumed": plgpu.Barrier(num_arrivals=COMPUTE_WGS, num_barriers=STAGES),
        },
        grid=(m // TILE_M, n // TILE_N),
        grid_names=("m", "n"),
        num_threads=COMPUTE_WGS + 1,
        thread_name="wg",
        interpret=interpret,
    )(a, b)


def _tile(
    a_gmem, b_gmem, out_gmem, *, a_smem, b_smem, out_smem, loaded, consumed, num_steps
):
    m, n, wg = lax.axis_index("m"), lax.axis_index("n"), lax.axis_index("wg")
    rows, columns = pl.ds(m * TILE_M, TILE_M), pl.ds(n * TILE_N, TILE_N)

    @pl.when(wg == COMPUTE_WGS)
    def _load():
        plgpu.set_max_registers(MEMORY_REGISTERS, action="decrease")

        @pl.loop(0, num_steps)
        def _(ki):
            slot, steps = lax.rem(ki, STAGES), pl.ds(ki * TILE_K, TILE_K)

            @pl.when(ki >= STAGES)
            def _():
                plgpu.barrier_wait(consumed.at[slot])  # The slot is free again.

            a_slot, b_slot, barrier = a_smem.at[slot], b_smem.at[slot], loaded.at[slot]
            plgpu.copy_gmem_to_smem(a_gmem.at[rows, steps], a_slot, barrier)
            plgpu.copy_gmem_to_smem(b_gmem.at[steps, columns], b_slot, barrier)

    @pl.when(wg < COMPUTE_WGS)
    def _compute():
        plgpu.set_max_registers(COMPUTE_REGISTERS, action="increase")
        wg_rows = pl.ds(wg * WG_M, WG_M)

        def multiply(acc):
            @pl.loop(0, num_steps)
            def _(ki):
                slot = lax.rem(ki, STAGES)
                plgpu.barrier_wait(loaded.at[slot])  # Both copies have landed.
                plgpu.wgmma(acc, a_smem.at[slot, wg_rows], b_smem.at[slot])
                plgpu.wgmma_wait(0)  # The slot has been read.

                @pl.when(ki + STAGES < num_steps)  # Nobody waits for later ones.
                def _():
                    plgpu.barrier_arrive(consumed.at[slot])

            return acc[...].astype(DTYPE)

        product = pl.run_scoped(multiply, plgpu.ACC((WG_M, TILE_N), jnp.float32))
        out_smem[wg] = product
        plgpu.commit_smem()  # TMA must see the stores above.
        plgpu.copy_smem_to_gmem(out_smem.at[wg], out_gmem.at[rows, columns].at[wg_rows])
        plgpu.wait_smem_to_gmem(0)  # SMEM must outlive the copy.


def _slots(*shape):
    return plgpu.SMEM(shape, DTYPE, transforms=TRANSFORMS)
