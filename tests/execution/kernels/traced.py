"""Small kernels, each of which breaks one legality rule when it is traced.

They are only traced and lowered; none would compute anything of use.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F16 = jnp.float16
LANES = plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Lane)


def layout(swizzle, dtype=F16, rows=8):
    columns = swizzle // jnp.dtype(dtype).itemsize
    return plgpu.TilingTransform((rows, columns)), plgpu.SwizzleTransform(swizzle)


def launch(body, *operands, out=((64, 64), jnp.float32), scratch=(), **options):
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(*out),
        scratch_types=list(scratch),
        **options,
    )(*operands)


def product(
    m=64,
    n=64,
    k=64,
    *,
    dtype=F16,
    b_dtype=None,
    accumulator=jnp.float32,
    a_layout=None,
    b_layout=None,
    a_in_registers=False,
    m_major=False,
    k_major=False,
    **options,
):
    """Launches one wgmma; B is N-major unless told otherwise."""
    a_layout = layout(128, dtype) if a_layout is None else a_layout
    b_layout = layout(128, dtype) if b_layout is None else b_layout

    def body(out_gmem, a_smem, b_smem):
        def multiply(acc):
            a = a_smem.T if m_major else a_smem
            a = plgpu.load(a_smem, layout=plgpu.Layout.WGMMA) if a_in_registers else a
            plgpu.wgmma(acc, a, b_smem.T if k_major else b_smem)
            return acc[...]

        out_gmem[...] = pl.run_scoped(multiply, plgpu.ACC((m, n), accumulator))

    a_shape, b_shape = (k, m) if m_major else (m, k), (n, k) if k_major else (k, n)
    scratch = [
        plgpu.SMEM(a_shape, dtype, transforms=() if a_in_registers else a_layout),
        plgpu.SMEM(b_shape, b_dtype or dtype, transforms=b_layout),
    ]
    return launch(body, out=((m, n), accumulator), scratch=scratch, **options)


def load(
    x, index, shape, *, transforms=(), collective=None, grid=(), names=(), **options
):
    """Launches one TMA load of `x_gmem.at[index(...)]`."""

    def body(x_gmem, out_gmem, x_smem, loaded):
        at = index(*(lax.axis_index(name) for name in names))
        plgpu.copy_gmem_to_smem(
            x_gmem.at[at], x_smem, loaded, collective_axes=collective
        )
        plgpu.barrier_wait(loaded)

    scratch = [plgpu.SMEM(shape, x.dtype, transforms=transforms), plgpu.Barrier()]
    return launch(body, x, scratch=scratch, grid=grid, grid_names=names, **options)


def store(x, index, shape, *, written=False, **options):
    """Launches one TMA store to an array like `x`."""

    def body(x_gmem, out_gmem, out_smem):
        if written:
            out_smem[...] = jnp.zeros(shape, x.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[index()])
        plgpu.wait_smem_to_gmem(0)

    out, scratch = (x.shape, x.dtype), [plgpu.SMEM(shape, x.dtype)]
    return launch(body, x, out=out, scratch=scratch, **options)


def rows(size, start=0):
    return lambda: (pl.ds(start, size),)


def block(m, n, start_m=0, start_n=0):
    return lambda: (pl.ds(start_m, m), pl.ds(start_n, n))


def nothing(*_):
    """A kernel's body that does nothing."""


def power(exponent):
    """Launches a kernel that raises a scalar to an integer power."""

    def body(out_gmem, x_smem):
        out_gmem[...] = jnp.zeros((64, 64), jnp.float32) + x_smem[0] ** exponent

    return launch(body, scratch=[plgpu.SMEM((64,), jnp.float32)])


def loop(**options):
    """Launches a kernel with a loop."""

    def body(out_gmem):
        def step(carry, _):
            return carry + 1.0, None

        total, _ = lax.scan(step, jnp.float32(0), length=4, **options)
        out_gmem[...] = jnp.zeros((64, 64), jnp.float32) + total

    return launch(body)


def registers(*counts):
    """Launches one warpgroup per count, each of which asks for so many registers."""

    def body(out_gmem):
        for thread, count in enumerate(counts):

            @pl.when(lax.axis_index("wg") == thread)
            def _(count=count):
                plgpu.set_max_registers(count, action="decrease")

    return launch(body, num_threads=len(counts), thread_name="wg")


def pipeline(
    emit,
    *,
    delays=(0,),
    steps=4,
    depends=True,
    stores=False,
    axes=(),
    state=None,
    interpret=None,
    **options,
):
    """Launches a pipeline over blocks of [64, 64] that does nothing with them."""
    index = (lambda k: (0, k)) if depends else (lambda k: (0, 0))
    block = functools.partial(plgpu.BlockSpec, (64, 64))
    in_specs = [block(index, delay_release=d, collective_axes=axes) for d in delays]
    out_specs = [block(lambda k: (0, k))] if stores else []

    def body(x_gmem, out_gmem):
        refs = [x_gmem] * len(delays) + [out_gmem] * stores
        run = emit(
            nothing,
            grid=(steps,),
            in_specs=in_specs,
            out_specs=out_specs,
            **({"pipeline_state": state} if state is not None else {}),
            **options,
        )
        if state is None:
            run(*refs)
        else:
            pl.run_scoped(
                lambda slots: run(*refs, allocations=slots),
                run.get_allocations(*refs),
                collective_axes="wg",
            )

    specialized = emit is plgpu.emit_pipeline_warp_specialized
    threads = {"num_threads": 3, "thread_name": "wg"} if specialized else {}
    x = jnp.zeros((64, 64 * steps), F16)
    out = ((64, 64 * steps), F16)
    return launch(body, x, out=out, interpret=interpret, **threads)


specialized = functools.partial(
    pipeline,
    plgpu.emit_pipeline_warp_specialized,
    max_concurrent_steps=2,
    num_compute_wgs=2,
    memory_registers=40,
    wg_axis="wg",
)


def stop_alone(*, interpret=None):
    """Launches the last of several pipelines without the first, which prefetches."""
    state = plgpu.PipelinePipeline.STOP
    return specialized(state=state, interpret=interpret)


def tcgen05(
    m=128, n=128, k=64, *, columns=0, collective=False, orders=True, swizzle=128
):
    """Launches one tcgen05 product."""

    def body(out_gmem, a_smem, b_smem, acc_tmem, done, *_):
        plgpu.tcgen05_mma(
            acc_tmem,
            a_smem,
            b_smem,
            done,
            accumulate=False,
            collective_axis="x" if collective else None,
        )

    scratch = [
        plgpu.SMEM((m, k), F16, transforms=layout(swizzle)),
        plgpu.SMEM((k, n), F16, transforms=layout(swizzle)),
        plgpu.TMEM((m, n * (1 + collective)), jnp.float32, collective=collective),
        plgpu.Barrier(orders_tensor_core=orders),
    ]
    if columns:
        scratch.append(plgpu.TMEM((128, columns), jnp.float32))
    cluster = {"cluster": (2,), "cluster_names": ("x",)} if collective else {}
    return launch(body, scratch=scratch, **cluster)
