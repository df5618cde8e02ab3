"""Kernels that kgen did not render, called as their users call them."""

import inspect

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as hopper

TILE = 64


def jax_own(a, b):
    """JAX's own warp-specialised, persistent matmul."""
    config = hopper.TuningConfig(
        tile_m=64,
        tile_n=64,
        tile_k=64,
        max_concurrent_steps=2,
        epi_tile_m=64,
        epi_tile_n=64,
    )
    # Before JAX 0.12 there was no operand to add to the product.
    takes_c = "c" in inspect.signature(hopper.matmul).parameters
    return hopper.matmul(a, b, *((None,) if takes_c else ()), config)


def quickstart(a, b, delay_release=1):
    """A matmul in the manner of JAX's quickstart.

    Layouts are left to JAX, and the accumulator shares a scope with the output's SMEM.
    """
    (m, k), (_, n) = a.shape, b.shape

    @plgpu.kernel(
        out_type=jax.ShapeDtypeStruct((m, n), a.dtype),
        scratch_types={
            "out_smem": plgpu.SMEM((TILE, TILE), a.dtype),
            "acc": plgpu.ACC((TILE, TILE), jnp.float32),
        },
        grid=(m // TILE, n // TILE),
        grid_names=("m", "n"),
    )
    def kernel(a_gmem, b_gmem, out_gmem, out_smem, acc):
        i, j = lax.axis_index("m"), lax.axis_index("n")

        def step(_, a_smem, b_smem):
            plgpu.wgmma(acc, a_smem, b_smem)
            plgpu.wgmma_wait(1)

        plgpu.emit_pipeline(
            step,
            grid=(k // TILE,),
            in_specs=[
                plgpu.BlockSpec(
                    (TILE, TILE), lambda ki: (i, ki), delay_release=delay_release
                ),
                plgpu.BlockSpec(
                    (TILE, TILE), lambda ki: (ki, j), delay_release=delay_release
                ),
            ],
            max_concurrent_steps=2,
        )(a_gmem, b_gmem)
        out_smem[...] = acc[...].astype(a.dtype)
        plgpu.commit_smem()
        rows, columns = pl.ds(i * TILE, TILE), pl.ds(j * TILE, TILE)
        plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[rows, columns])
        plgpu.wait_smem_to_gmem(0)

    return kernel(a, b)


def quickstart_with_a_race(a, b):
    return quickstart(a, b, delay_release=0)


def scaled(x, scale=2):
    """Doubles every element, a row of CTAs at a time; no tensor cores."""

    @plgpu.kernel(
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // TILE,),
        grid_names=("rows",),
    )
    def kernel(x_gmem, out_gmem):
        rows = pl.ds(lax.axis_index("rows") * TILE, TILE)
        out_gmem[rows] = x_gmem[rows] * scale

    return kernel(x)


def doubled(x):
    return 2 * x


def tripled(x):
    return 3 * x


def counted(x):
    """Adds one to every integer."""

    @plgpu.kernel(
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // TILE,),
        grid_names=("rows",),
    )
    def kernel(x_gmem, out_gmem):
        rows = pl.ds(lax.axis_index("rows") * TILE, TILE)
        out_gmem[rows] = x_gmem[rows] + 1

    return kernel(x)


def one_more(x):
    return x + 1


def two_more(x):
    return x + 2


def exponential(x, least=None):
    """Returns exp(3 x), or zero where x is less than `least`."""

    @plgpu.kernel(
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // TILE,),
        grid_names=("rows",),
    )
    def kernel(x_gmem, out_gmem):
        rows = pl.ds(lax.axis_index("rows") * TILE, TILE)
        values = x_gmem[rows]
        result = jnp.exp(3 * values)
        out_gmem[rows] = result if least is None else result * (values >= least)

    return kernel(x)


def cut_exponential(x):
    return exponential(x, least=-1.9)


def plain_exponential(x):
    return jnp.exp(3 * x)
