"""What kgen knows of JAX and works around; a test fails as soon as JAX changes."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


def test_pallas_call_does_not_lower_to_mosaic_gpu():
    """Why `entry_point = "pallas_call"` is written over `plgpu.kernel`."""

    def copy(x_smem, out_smem):
        out_smem[...] = x_smem[...]

    struct = jax.ShapeDtypeStruct((128, 64), jnp.float32)
    call = pl.pallas_call(
        copy,
        out_shape=struct,
        grid=(2,),
        in_specs=[pl.BlockSpec((64, 64), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((64, 64), lambda i: (i, 0)),
        compiler_params=plgpu.CompilerParams(dimension_semantics=("sequential",)),
    )
    with pytest.raises(AssertionError):
        jax.jit(call).trace(struct).lower(lowering_platforms=("cuda",))


def test_kernel_takes_no_dimension_semantics():
    kernel = plgpu.kernel(
        lambda x_gmem, out_gmem: None,
        out_type=jax.ShapeDtypeStruct((128,), jnp.float32),
        grid=(2,),
        grid_names=("m",),
        compiler_params=plgpu.CompilerParams(dimension_semantics=("parallel",)),
    )
    struct = jax.ShapeDtypeStruct((128,), jnp.float32)
    with pytest.raises(NotImplementedError, match="dimension_semantics"):
        jax.jit(kernel).trace(struct).lower(lowering_platforms=("cuda",))
