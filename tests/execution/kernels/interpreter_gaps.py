"""Kernels that need what JAX's GPU interpreter lacks; each small, and right on a GPU.

`RIGHT` are right. `RACY` have a race, though nothing wrong comes out of a simulation.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

SIZE = 64


@dataclasses.dataclass(frozen=True)
class Probe:
    """A kernel, what it is called with, and what it should return."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    expected: Any


def integers(*shape: int, seed: int = 0, dtype: Any = np.float16) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


A, B = integers(SIZE, SIZE), integers(SIZE, SIZE, seed=1)
PRODUCT = A.astype(np.float32) @ B.astype(np.float32)
TILES = integers(3, SIZE, SIZE, seed=2)
ROWS = integers(4, SIZE, SIZE, seed=3, dtype=np.float32)


def _smem(*shape: int, dtype: Any = jnp.float16) -> Any:
    width = 128 // np.dtype(dtype).itemsize
    transforms = (plgpu.TilingTransform((8, width)), plgpu.SwizzleTransform(128))
    return plgpu.SMEM(shape, dtype, transforms=transforms)


def _tile(dtype: Any = jnp.float16) -> Any:
    return jax.ShapeDtypeStruct((SIZE, SIZE), dtype)


def _constant(value: float) -> Any:
    """Returns a tile of float32 in the registers of a warpgroup."""
    tile = jnp.full((SIZE, SIZE), value, jnp.float32)
    return plgpu.layout_cast(tile, plgpu.Layout.WGMMA)


def _store(tile: Any, out_smem: Any, out_gmem: Any) -> None:
    out_smem[...] = tile.astype(out_smem.dtype)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(out_smem, out_gmem)
    plgpu.wait_smem_to_gmem(0)


def _with_operands(body: Callable[..., Any], *scratch: Any) -> Callable[..., Any]:
    """Returns a kernel whose `body` finds A and B in SMEM and returns a tile."""

    def kernel(a_gmem, b_gmem, out_gmem, *scratch):
        a_smem, b_smem, out_smem, loaded, *more = scratch
        plgpu.copy_gmem_to_smem(a_gmem, a_smem, loaded)
        plgpu.copy_gmem_to_smem(b_gmem, b_smem, loaded)
        plgpu.barrier_wait(loaded)
        _store(body(a_smem, b_smem, *more), out_smem, out_gmem)

    types = [_smem(SIZE, SIZE)] * 3 + [plgpu.Barrier(num_arrivals=2), *scratch]
    return plgpu.kernel(kernel, out_type=_tile(), scratch_types=types)


def _run_state(a_smem, b_smem):
    def multiply(acc):
        plgpu.wgmma(acc, a_smem, b_smem)

    return pl.run_state(multiply)(plgpu.ACC.init(_constant(2)))


def _a_in_registers(a_smem, b_smem):
    a = plgpu.load(a_smem, layout=plgpu.Layout.WGMMA) * 2

    def multiply(acc):
        plgpu.wgmma(acc, a, b_smem)
        return acc[...]

    return pl.run_scoped(multiply, plgpu.ACC((SIZE, SIZE)))


def _scratch_accumulator(a_smem, b_smem, acc):
    plgpu.wgmma(acc, a_smem, b_smem)
    return acc[...]


def _accumulator_store(a_smem, b_smem):
    def multiply(acc):
        acc[...] = _constant(5)
        plgpu.wgmma(acc, a_smem, b_smem)
        return acc[...]

    return pl.run_scoped(multiply, plgpu.ACC((SIZE, SIZE)))


def _accumulator_read(a_smem, b_smem, *, wait_n):
    def multiply(acc):
        plgpu.wgmma(acc, a_smem, b_smem)
        return plgpu.wgmma_accumulator_load(acc, wait_n=wait_n)

    return pl.run_scoped(multiply, plgpu.ACC((SIZE, SIZE)))


def unloaded_operand(a: Any, b: Any) -> Any:
    """Multiplies before the loads have arrived."""

    def kernel(a_gmem, b_gmem, out_gmem, *scratch):
        a_smem, b_smem, out_smem, loaded = scratch
        plgpu.copy_gmem_to_smem(a_gmem, a_smem, loaded)
        plgpu.copy_gmem_to_smem(b_gmem, b_smem, loaded)
        product = _accumulator_read(a_smem, b_smem, wait_n=0)
        plgpu.barrier_wait(loaded)
        _store(product, out_smem, out_gmem)

    types = [_smem(SIZE, SIZE)] * 3 + [plgpu.Barrier(num_arrivals=2)]
    return plgpu.kernel(kernel, out_type=_tile(), scratch_types=types)(a, b)


def overwritten_b(a: Any, b: Any) -> Any:
    """Loads B anew under a wgmma whose A is in registers."""

    def kernel(a_gmem, b_gmem, out_gmem, *scratch):
        a_smem, b_smem, out_smem, loaded = scratch
        plgpu.copy_gmem_to_smem(a_gmem, a_smem, loaded)
        plgpu.barrier_wait(loaded)
        a = plgpu.load(a_smem, layout=plgpu.Layout.WGMMA)
        plgpu.copy_gmem_to_smem(b_gmem, b_smem, loaded)
        plgpu.barrier_wait(loaded)

        def multiply(acc):
            plgpu.wgmma(acc, a, b_smem)
            plgpu.copy_gmem_to_smem(b_gmem, b_smem, loaded)
            plgpu.barrier_wait(loaded)
            return acc[...]

        product = pl.run_scoped(multiply, plgpu.ACC((SIZE, SIZE)))
        _store(product, out_smem, out_gmem)

    types = [_smem(SIZE, SIZE)] * 3 + [plgpu.Barrier()]
    return plgpu.kernel(kernel, out_type=_tile(), scratch_types=types)(a, b)


def crowd(x: Any) -> Any:
    """Multiplies in 33 warpgroups of a cluster."""

    def kernel(x_gmem, out_gmem, a_smem, b_smem, loaded):
        for smem in (a_smem, b_smem):
            plgpu.copy_gmem_to_smem(x_gmem, smem, loaded)
            plgpu.barrier_wait(loaded)
        product = _accumulator_read(a_smem, b_smem, wait_n=0)

        @pl.when(lax.axis_index("cta") == 0)
        def _():
            out_gmem[lax.axis_index("wg")] = product

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((3, SIZE, SIZE), jnp.float32),
        cluster=(11,),
        cluster_names=("cta",),
        num_threads=3,
        thread_name="wg",
        scratch_types=[_smem(SIZE, SIZE)] * 2 + [plgpu.Barrier(num_arrivals=3)],
    )(x)


def pipeline_with_outputs(x: Any) -> Any:
    """Doubles tiles; the pipeline stores them under a predicate, in groups."""

    def kernel(x_gmem, out_gmem):
        def step(_, x_smem, out_smem):
            out_smem[...] = x_smem[...] * 2

        spec = plgpu.BlockSpec((1, SIZE, SIZE), lambda i: (i, 0, 0))
        plgpu.emit_pipeline(
            step,
            grid=(x.shape[0],),
            in_specs=[spec],
            out_specs=[spec],
            max_concurrent_steps=2,
        )(x_gmem, out_gmem)

    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def predicated_load(x: Any) -> Any:
    """Copies the tiles but the last, which stays 7."""

    def kernel(x_gmem, out_gmem, smem, loaded):
        i = lax.axis_index("i")
        wanted = i < x.shape[0] - 1
        smem[...] = jnp.full((SIZE, SIZE), 7, smem.dtype)
        plgpu.commit_smem()
        plgpu.copy_gmem_to_smem(x_gmem.at[i], smem, loaded, predicate=wanted)

        @pl.when(wanted)
        def _():
            plgpu.barrier_wait(loaded)

        plgpu.copy_smem_to_gmem(smem, out_gmem.at[i])
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=x.shape[:1],
        grid_names=("i",),
        scratch_types=[_smem(SIZE, SIZE), plgpu.Barrier()],
    )(x)


def groups(x: Any, *, grouped: bool, wait: int, committed: bool = True) -> Any:
    """Stores two tiles, in one group or two, and overwrites the second in SMEM."""

    def kernel(x_gmem, out_gmem, smem, loaded):
        plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(0, 2)], smem, loaded)
        plgpu.barrier_wait(loaded)
        for i in range(2):
            plgpu.copy_smem_to_gmem(
                smem.at[i], out_gmem.at[i], commit_group=not grouped
            )
        if grouped and committed:
            plgpu.commit_smem_to_gmem_group()
        plgpu.wait_smem_to_gmem(wait, wait_read_only=True)
        smem[0] = jnp.zeros((SIZE, SIZE), smem.dtype)
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((2, SIZE, SIZE), x.dtype),
        scratch_types=[plgpu.SMEM((2, SIZE, SIZE), x.dtype), plgpu.Barrier()],
    )(x)


def reductions(x: Any, *, op: str, ordered: bool = True) -> Any:
    """Two warpgroups reduce x[0] and x[1] into x[2] by TMA."""

    def kernel(x_gmem, out_gmem, smem, loaded, stored):
        wg = lax.axis_index("wg")
        plgpu.copy_gmem_to_smem(x_gmem.at[wg], smem.at[wg], loaded.at[wg])
        plgpu.barrier_wait(loaded.at[wg])

        @pl.when(wg == 0)
        def _():
            plgpu.copy_gmem_to_smem(x_gmem.at[2], smem.at[2], loaded.at[2])
            plgpu.barrier_wait(loaded.at[2])
            plgpu.copy_smem_to_gmem(smem.at[2], out_gmem)
            plgpu.wait_smem_to_gmem(0)

        if ordered:
            plgpu.barrier_arrive(stored)
            plgpu.barrier_wait(stored)
        plgpu.copy_smem_to_gmem(smem.at[wg], out_gmem, reduction_op=op)
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        kernel,
        out_type=_tile(x.dtype),
        num_threads=2,
        thread_name="wg",
        scratch_types=[
            _smem(3, SIZE, SIZE, dtype=x.dtype),
            plgpu.Barrier(num_barriers=3),
            plgpu.Barrier(num_arrivals=2),
        ],
    )(x)


def atomics(x: Any) -> Any:
    """Two warpgroups add tiles to zeros in GMEM."""

    def kernel(x_gmem, out_gmem, zeroed):
        wg = lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            out_gmem[...] = _constant(0)

        plgpu.barrier_arrive(zeroed)
        plgpu.barrier_wait(zeroed)
        layout = plgpu.Layout.WGMMA
        tile = plgpu.load(x_gmem.at[wg], layout=layout, optimized=False)
        plgpu.atomic_add(out_gmem, tile)

    return plgpu.kernel(
        kernel,
        out_type=_tile(x.dtype),
        num_threads=2,
        thread_name="wg",
        scratch_types=[plgpu.Barrier(num_arrivals=2)],
    )(x)


def beyond_the_end(x: Any, *, mode: str) -> Any:
    """Loads a tile of which half is beyond the end."""
    half = SIZE // 2
    return _loaded(
        x, lambda i: (pl.ds(pl.multiple_of((i + 1) * half, half), SIZE),), mode
    )


def beyond_the_only_tile(x: Any) -> Any:
    """Loads what begins beyond columns that are a single tile."""

    def place(i: Any) -> tuple[Any, ...]:
        return slice(None), pl.ds(pl.multiple_of((i + 1) * SIZE, SIZE), SIZE)

    return _loaded(x, place, "ZEROS")


def _loaded(x: Any, place: Callable[[Any], tuple[Any, ...]], mode: str) -> Any:
    """Loads a tile from a place that depends on the CTA, which is the first."""

    def kernel(x_gmem, out_gmem, smem, loaded):
        plgpu.copy_gmem_to_smem(
            x_gmem.at[place(lax.axis_index("i"))],
            smem,
            loaded,
            oob_mode=getattr(plgpu.OOBFillMode, mode),
        )
        plgpu.barrier_wait(loaded)
        plgpu.copy_smem_to_gmem(smem, out_gmem)
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        kernel,
        out_type=_tile(x.dtype),
        grid=(1,),
        grid_names=("i",),
        scratch_types=[_smem(SIZE, SIZE), plgpu.Barrier()],
    )(x)


def multicast(x: Any, *, free: bool = True, same: bool = True) -> Any:
    """The 2 CTAs of a cluster load every tile of x together."""

    def kernel(x_gmem, out_gmem, smem, loaded, released):
        cta = lax.axis_index("cta")

        def step(i, _):
            tile = i if same else lax.rem(i + cta, jnp.int32(x.shape[0]))
            plgpu.copy_gmem_to_smem(
                x_gmem.at[tile], smem, loaded, collective_axes="cta"
            )
            plgpu.barrier_wait(loaded)
            out_gmem[cta, i] = smem[...]
            plgpu.commit_smem()
            if free:
                plgpu.barrier_arrive(released)
                plgpu.barrier_wait(released)

        lax.fori_loop(0, x.shape[0], step, None)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((2, *x.shape), x.dtype),
        cluster=(2,),
        cluster_names=("cta",),
        scratch_types=[
            plgpu.SMEM((SIZE, SIZE), x.dtype),
            plgpu.Barrier(),
            plgpu.ClusterBarrier(collective_axes=("cta",)),
        ],
    )(x)


def cluster_of_wgmmas(a: Any, b: Any, *, overwrite: bool) -> Any:
    """Both CTAs multiply; the second may load A anew under its wgmma."""

    def kernel(a_gmem, b_gmem, out_gmem, *scratch):
        a_smem, b_smem, out_smem, loaded = scratch
        cta = lax.axis_index("cta")

        def load():
            plgpu.copy_gmem_to_smem(a_gmem, a_smem, loaded)
            plgpu.copy_gmem_to_smem(b_gmem, b_smem, loaded)
            plgpu.barrier_wait(loaded)

        def multiply(acc):
            plgpu.wgmma(acc, a_smem, b_smem)
            if overwrite:
                pl.when(cta == 1)(load)
            return acc[...]

        load()
        product = pl.run_scoped(multiply, plgpu.ACC((SIZE, SIZE)))
        _store(product, out_smem, out_gmem.at[cta])

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((2, SIZE, SIZE), a.dtype),
        cluster=(2,),
        cluster_names=("cta",),
        scratch_types=[_smem(SIZE, SIZE)] * 3 + [plgpu.Barrier(num_arrivals=2)],
    )(a, b)


def two_ctas_write(x: Any) -> Any:
    """Two CTAs write the same tile, the second after it has read another one."""

    def kernel(x_gmem, out_gmem):
        cta = lax.axis_index("i")

        @pl.when(cta == 0)
        def _():
            out_gmem[...] = x_gmem[0]

        @pl.when(cta == 1)
        def _():
            out_gmem[...] = x_gmem[0] + x_gmem[1] * 0

    return plgpu.kernel(
        kernel,
        out_type=_tile(x.dtype),
        grid=(2,),
        grid_names=("i",),
    )(x)


def unseen_arrival(x: Any) -> Any:
    """The second warpgroup's last arrival is waited for by nobody."""

    def kernel(x_gmem, out_gmem, released, seen):
        wg = lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            plgpu.barrier_wait(released)
            out_gmem[...] = x_gmem[...]
            plgpu.barrier_arrive(seen)

        @pl.when(wg == 1)
        def _():
            plgpu.barrier_arrive(released)
            plgpu.barrier_wait(seen)
            plgpu.barrier_arrive(released)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        num_threads=2,
        thread_name="wg",
        scratch_types=[plgpu.Barrier(), plgpu.Barrier()],
    )(x)


def jit_within(x: Any) -> Any:
    """A part of the kernel is a jitted function."""

    @jax.jit
    def load(x_gmem, smem, loaded):
        plgpu.copy_gmem_to_smem(x_gmem, smem, loaded)
        plgpu.barrier_wait(loaded)
        return smem[...] * 2

    def kernel(x_gmem, out_gmem, smem, loaded):
        pl.delay(1)
        out_gmem[...] = load(x_gmem, smem, loaded)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_types=[plgpu.SMEM(x.shape, x.dtype), plgpu.Barrier()],
    )(x)


def sums(x: Any) -> Any:
    """Sums up rows with `plgpu.sum`, which JAX has since 0.12."""

    def kernel(x_gmem, out_gmem):
        tile = plgpu.load(x_gmem, layout=plgpu.Layout.WGMMA, optimized=False)
        out_gmem[...] = plgpu.sum(tile, axis=1)

    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape[:1], x.dtype))(x)


def program_id(x: Any) -> Any:
    """Every CTA copies the tile of its `pl.program_id`."""

    def kernel(x_gmem, out_gmem):
        i = pl.program_id(0)
        out_gmem[i] = x_gmem[i]

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=x.shape[:1],
        grid_names=("i",),
    )(x)


def semaphores(x: Any) -> Any:
    """Signals a semaphore and waits for it."""

    def kernel(x_gmem, out_gmem, semaphore):
        pl.semaphore_signal(semaphore)
        pl.semaphore_wait(semaphore)
        out_gmem[...] = x_gmem[...]

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_types=[plgpu.SemaphoreType.REGULAR],
    )(x)


def inline(x: Any) -> Any:
    """Has a piece of MLIR."""

    @plgpu.inline_mgpu()
    def nothing(_):
        pass

    def kernel(x_gmem, out_gmem):
        nothing()
        out_gmem[...] = x_gmem[...]

    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def printing(x: Any) -> Any:
    """Prints a layout, which JAX can do for a GPU alone."""

    def kernel(x_gmem, out_gmem):
        tile = x_gmem[...]
        plgpu.print_layout("{}", tile)
        out_gmem[...] = tile

    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def stack_of(last: float) -> Any:
    """Returns TILES with another last tile."""
    return np.concatenate([TILES[:-1], np.full_like(TILES[-1:], last)])


ZEROS_BEYOND = np.concatenate([A[SIZE // 2 :], np.zeros_like(A[SIZE // 2 :])])
COUNTS = integers(3, SIZE, SIZE, seed=4, dtype=np.int32)
RIGHT = {
    "run_state": Probe(_with_operands(_run_state), (A, B), PRODUCT + 2),
    "a_in_registers": Probe(_with_operands(_a_in_registers), (A, B), PRODUCT * 2),
    "scratch_accumulator": Probe(
        _with_operands(_scratch_accumulator, plgpu.ACC((SIZE, SIZE))), (A, B), PRODUCT
    ),
    "accumulator_store": Probe(_with_operands(_accumulator_store), (A, B), PRODUCT + 5),
    "pipeline_with_outputs": Probe(pipeline_with_outputs, (TILES,), TILES * 2),
    "predicated_load": Probe(predicated_load, (TILES,), stack_of(7)),
    "two_groups": Probe(
        functools.partial(groups, grouped=False, wait=1), (TILES,), TILES[:2]
    ),
    "one_group": Probe(
        functools.partial(groups, grouped=True, wait=0), (TILES,), TILES[:2]
    ),
    "reduction_add": Probe(
        functools.partial(reductions, op="add"), (TILES,), TILES.sum(axis=0)
    ),
    "reduction_max": Probe(
        functools.partial(reductions, op="max"), (TILES,), TILES.max(axis=0)
    ),
    "reduction_umax": Probe(
        functools.partial(reductions, op="umax"),
        (COUNTS,),
        COUNTS.view(np.uint32).max(axis=0).view(np.int32),
    ),
    "reduction_xor": Probe(
        functools.partial(reductions, op="xor"),
        (COUNTS,),
        np.bitwise_xor.reduce(COUNTS),
    ),
    "atomics": Probe(atomics, (ROWS,), ROWS[0] + ROWS[1]),
    "zeros_beyond_the_end": Probe(
        functools.partial(beyond_the_end, mode="ZEROS"), (A,), ZEROS_BEYOND
    ),
    "multicast": Probe(multicast, (ROWS,), np.stack([ROWS, ROWS])),
    "cluster_of_wgmmas": Probe(
        functools.partial(cluster_of_wgmmas, overwrite=False),
        (A, B),
        np.stack([PRODUCT, PRODUCT]),
    ),
    "unseen_arrival": Probe(unseen_arrival, (ROWS[0],), ROWS[0]),
    "jit_within": Probe(jit_within, (ROWS[0],), ROWS[0] * 2),
}
if hasattr(plgpu, "sum"):
    RIGHT["sums"] = Probe(sums, (ROWS[0],), ROWS[0].sum(axis=1))
RACY = {
    "unloaded_operand": Probe(unloaded_operand, (A, B), PRODUCT),
    "overwritten_b": Probe(overwritten_b, (A, B), PRODUCT),
    "accumulator_read_early": Probe(
        _with_operands(functools.partial(_accumulator_read, wait_n=1)), (A, B), PRODUCT
    ),
    "accumulator_read_unsynchronised": Probe(
        _with_operands(functools.partial(_accumulator_read, wait_n=None)),
        (A, B),
        PRODUCT,
    ),
    "one_group_not_waited_for": Probe(
        functools.partial(groups, grouped=True, wait=1), (TILES,), TILES[:2]
    ),
    "reduction_against_a_store": Probe(
        functools.partial(reductions, op="add", ordered=False), (TILES,), None
    ),
    "multicast_into_a_slot_in_use": Probe(
        functools.partial(multicast, free=False), (ROWS,), np.stack([ROWS, ROWS])
    ),
    "overwritten_in_the_second_cta": Probe(
        functools.partial(cluster_of_wgmmas, overwrite=True),
        (A, B),
        np.stack([PRODUCT, PRODUCT]),
    ),
    "two_ctas_write": Probe(two_ctas_write, (ROWS,), ROWS[0]),
}
WRONG = {
    "uncommitted": Probe(
        functools.partial(groups, grouped=True, wait=0, committed=False),
        (TILES,),
        TILES[:2],
    ),
    "undefined_beyond_the_end": Probe(
        functools.partial(beyond_the_end, mode="UNDEFINED"), (A,), ZEROS_BEYOND
    ),
    "broken_promise": Probe(
        functools.partial(beyond_the_end, mode="PROMISE_IN_BOUNDS"), (A,), ZEROS_BEYOND
    ),
    "beyond_the_only_tile": Probe(beyond_the_only_tile, (A,), np.zeros_like(A)),
    "multicast_of_two_tiles": Probe(
        functools.partial(multicast, same=False), (ROWS,), np.stack([ROWS, ROWS])
    ),
}
REFUSED = {
    "program_id": Probe(program_id, (ROWS,), ROWS),
    "semaphores": Probe(semaphores, (ROWS[0],), ROWS[0]),
    "crowd": Probe(crowd, (A,), None),
    "inline": Probe(inline, (ROWS[0],), ROWS[0]),
}
ALL = RIGHT | RACY | WRONG | REFUSED
