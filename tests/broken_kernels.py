"""Kernels that break one legality rule each, what JAX says of them, and legal ones.

An entry is the rule's code, a function, the shape of its float16 operand or () if it
has none, and what JAX says when it traces and lowers the kernel.
"""

import importlib.util
from functools import partial

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from verify_requests import KERNELS

MODULE = KERNELS / "traced.py"


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


t = imported(MODULE)
F16, F32, BF16, FP8 = jnp.float16, jnp.float32, jnp.bfloat16, jnp.float8_e4m3fn
TILED = {"transforms": t.layout(128)}
ALL = (pl.ds(0, 64), pl.ds(0, 64))
EMIT = plgpu.emit_pipeline
START = plgpu.PipelinePipeline.START

BARE = ""
"""JAX raises an error without a message."""
NOTHING = None
"""JAX traces and lowers the kernel without complaint."""
LAYOUTS = "Failed to infer a possible set of layouts"
INTERNAL = "internal verification error"


def scratch(*refs, **options):
    return partial(t.launch, t.nothing, scratch=refs, **options)


def smem(*shape, dtype=F16, **options):
    return plgpu.SMEM(shape, dtype, **options)


BROKEN = [
    ("KG101", partial(t.product, m=96), (), INTERNAL),
    ("KG101", partial(t.product, m=100), (), BARE),
    ("KG102", partial(t.product, n=20, k_major=True), (), BARE),
    ("KG102", partial(t.product, n=264, k_major=True), (), "N must be a multiple of 8"),
    ("KG103", partial(t.product, n=24), (), BARE),
    (
        "KG103",
        partial(t.product, n=40, a_layout=t.layout(32), b_layout=t.layout(32)),
        (),
        BARE,
    ),
    (
        "KG103",
        partial(t.product, n=24, a_layout=(), b_layout=()),
        (),
        "No valid tiling found",
    ),
    ("KG104", partial(t.product, k=96), (), BARE),
    ("KG105", partial(t.product, b_dtype=BF16), (), "Mixed input dtypes"),
    ("KG106", partial(t.product, dtype=BF16, accumulator=F16), (), "only supports acc"),
    ("KG107", partial(t.product, k=32, dtype=F32), (), "Only f16 WGMMA"),
    ("KG107", partial(t.product, k=128, n=128, dtype=FP8), (), "Only f16 WGMMA"),
    (
        "KG107",
        partial(t.product, k=32, dtype=F32, k_major=True, m_major=True),
        (),
        "Only f16 WGMMA",
    ),
    (
        "KG108",
        partial(t.product, k=32, dtype=F32, k_major=True, a_in_registers=True),
        (),
        "Only f16, bf16, i8",
    ),
    (
        "KG109",
        partial(t.product, dtype=jnp.int16, accumulator=jnp.int32),
        (),
        INTERNAL,
    ),
    ("KG201", partial(t.product, b_layout=t.layout(64)), (), LAYOUTS),
    ("KG202", partial(t.product, a_layout=t.layout(128, rows=16)), (), LAYOUTS),
    ("KG202", partial(t.product, a_layout=t.layout(128)[:1]), (), LAYOUTS),
    ("KG202", partial(t.product, a_layout=t.layout(128)[1:]), (), LAYOUTS),
    ("KG204", scratch(smem(64, 96, **TILED)), (), BARE),
    (
        "KG204",
        scratch(smem(64, 32, transforms=t.layout(128)[1:])),
        (),
        "requires the trailing dimension",
    ),
    (
        "KG204",
        partial(t.product, a_layout=t.layout(128)[::-1]),
        (),
        "Unsupported transforms",
    ),
    (
        "KG204",
        partial(t.load, index=t.rows(64), shape=(64,), transforms=t.layout(128)[:1]),
        (256,),
        INTERNAL,
    ),
    ("KG205", lambda: t.layout(16), (), "Swizzle 16 is not supported"),
    ("KG301", partial(t.load, index=t.rows(512), shape=(512, 64)), (1024, 64), "<=256"),
    (
        "KG301",
        partial(t.store, index=t.block(512, 64), shape=(512, 64)),
        (1024, 128),
        "<=256",
    ),
    (
        "KG301",
        partial(t.store, index=t.block(320, 24), shape=(320, 24), written=True),
        (640, 72),
        "<=256",
    ),
    (
        "KG302",
        partial(t.load, index=t.block(64, 8), shape=(64, 8)),
        (256, 12),
        "multiple of 16 bytes",
    ),
    (
        "KG302",
        partial(t.load, index=t.block(64, 4), shape=(64, 4)),
        (256, 256),
        "divisible by 128",
    ),
    (
        "KG302",
        partial(t.store, index=t.block(64, 8), shape=(64, 8)),
        (256, 12),
        "multiple of 16 bytes",
    ),
    (
        "KG303",
        partial(t.load, index=t.block(4, 8), shape=(4, 8), compiler_params=t.LANES),
        (256, 8),
        "divisible by the warpgroup size",
    ),
    (
        "KG304",
        partial(t.load, index=lambda: (), shape=(2, 2, 2, 2, 2, 64)),
        (2, 2, 2, 2, 2, 64),
        "up to 5 dimensions",
    ),
    (
        "KG305",
        partial(t.load, index=lambda: (pl.ds(0, 64), 0), shape=(64,)),
        (256, 256),
        "stride of the last dimension",
    ),
    (
        "KG306",
        partial(t.load, index=t.rows(64), shape=(64, 64)),
        (2**32 + 64, 64),
        NOTHING,
    ),
    (
        "KG307",
        partial(t.load, index=lambda: ALL, shape=(64, 64), **TILED),
        (256, 200),
        "multiple of its tiling 64",
    ),
    (
        "KG308",
        partial(
            t.load,
            index=lambda n: (pl.ds(0, 64), pl.ds(n * 32, 64)),
            shape=(64, 64),
            grid=(4,),
            names=("n",),
            **TILED,
        ),
        (256, 256),
        LAYOUTS,
    ),
    (
        "KG308",
        partial(
            t.load,
            index=lambda n: (pl.ds(0, 64), pl.ds(n * 32, 64)),
            shape=(64, 64),
            grid=(4,),
            names=("n",),
            compiler_params=t.LANES,
            **TILED,
        ),
        (256, 256),
        NOTHING,
    ),
    (
        "KG308",
        partial(t.load, index=t.block(64, 64, 0, 32), shape=(64, 64), **TILED),
        (256, 256),
        LAYOUTS,
    ),
    (
        "KG309",
        partial(
            t.load,
            index=lambda n: ALL,
            shape=(64, 64),
            grid=(4,),
            names=("n",),
            collective="n",
            **TILED,
        ),
        (256, 256),
        "Unknown cluster axis n",
    ),
    (
        "KG309",
        scratch(plgpu.ClusterBarrier(collective_axes=("x",))),
        (),
        "Unknown cluster axis x",
    ),
    (
        "KG310",
        partial(
            t.load,
            index=lambda: (pl.ds(0, 64, 2), pl.ds(0, 64)),
            shape=(64, 64),
            **TILED,
        ),
        (256, 256),
        NOTHING,
    ),
    ("KG401", scratch(smem(1024, 128)), (), "exceeds available shared memory"),
    ("KG402", partial(t.product, m=256, n=128), (), NOTHING),
    ("KG403", partial(t.registers, 16), (), NOTHING),
    ("KG403", partial(t.registers, 264), (), NOTHING),
    ("KG403", partial(t.registers, 42), (), "positive multiple of 8"),
    ("KG404", partial(t.registers, 232, 232, 64), (), NOTHING),
    (
        "KG405",
        partial(t.product, n=208, k_major=True, num_threads=4, thread_name="wg"),
        (),
        NOTHING,
    ),
    ("KG406", scratch(cluster=(3,), cluster_names=("x",)), (), NOTHING),
    ("KG406", scratch(cluster=(4, 4), cluster_names=("x", "y")), (), NOTHING),
    ("KG407", scratch(grid=(0,), grid_names=("x",)), (), NOTHING),
    ("KG407", scratch(grid=(70_000, 1), grid_names=("m", "n")), (), NOTHING),
    ("KG407", scratch(grid=(300, 300, 1, 1), grid_names=tuple("abcd")), (), NOTHING),
    ("KG408", scratch(num_threads=9, thread_name="wg"), (), NOTHING),
    (
        "KG501",
        partial(t.pipeline, EMIT, delays=(2,), max_concurrent_steps=2),
        (),
        "max_concurrent_steps must be greater",
    ),
    (
        "KG501",
        partial(t.specialized, delays=(2,)),
        (),
        "max_concurrent_steps must be greater",
    ),
    ("KG504", partial(t.specialized, delays=(1, 0)), (), "same delay_release"),
    ("KG505", partial(t.specialized, memory_thread_idx=0), (), "must be the last"),
    (
        "KG506",
        partial(t.specialized, stores=True),
        (),
        "SMEM outputs are not supported",
    ),
    ("KG507", partial(t.specialized, depends=False), (), "dependency on the grid"),
    ("KG508", partial(t.pipeline, EMIT, axes=("x",)), (), "collective_axes= is not"),
    ("KG509", partial(t.specialized, steps=3, state=START), (), "divisible by"),
    ("KG509", partial(t.specialized, delays=(1,), state=START), (), "not supported w"),
    ("KG611", partial(t.loop, reverse=True), (), BARE),
    ("KG612", partial(t.power, -2), (), BARE),
    ("KG701", partial(t.tcgen05, m=192), (), "either 128 or 64 rows"),
    ("KG702", partial(t.tcgen05, n=20), (), BARE),
    ("KG703", partial(t.tcgen05, n=256, collective=True), (), "Only N <= 128"),
    ("KG704", partial(t.tcgen05, columns=512), (), "exceeding the limit of 512"),
    ("KG705", partial(t.tcgen05, orders=False), (), "orders_tensor_core"),
]
LEGAL = [
    (t.product, ()),
    (partial(t.product, m_major=True), ()),
    (partial(t.product, a_in_registers=True, k_major=True), ()),
    (partial(t.product, n=24, k_major=True), ()),
    (partial(t.product, n=96, a_layout=t.layout(64), b_layout=t.layout(64)), ()),
    (partial(t.product, n=96, a_layout=(), b_layout=()), ()),
    (partial(t.store, index=t.rows(512), shape=(512, 64)), (1024, 64)),
    (partial(t.load, index=t.block(4, 8), shape=(4, 8)), (256, 8)),
    (
        partial(t.load, index=lambda: (1, 1, 1), shape=(2, 2, 64)),
        (2, 2, 2, 2, 2, 64),
    ),
    (
        partial(
            t.load,
            index=lambda n: (pl.ds(0, 64), pl.ds(n * 64, 64)),
            shape=(64, 64),
            grid=(4,),
            names=("n",),
            **TILED,
        ),
        (256, 256),
    ),
    (
        partial(
            t.load,
            index=lambda: ALL,
            shape=(64, 64),
            cluster=(2,),
            cluster_names=("x",),
            collective="x",
            **TILED,
        ),
        (256, 256),
    ),
    (partial(t.pipeline, EMIT, max_concurrent_steps=2), ()),
    (t.specialized, ()),
    (partial(t.specialized, steps=4, state=START), ()),
    (t.loop, ()),
    (partial(t.power, 2), ()),
    (partial(t.power, -1), ()),
    (t.tcgen05, ()),
    (partial(t.tcgen05, m=64), ()),
    (partial(t.tcgen05, collective=True), ()),
]
