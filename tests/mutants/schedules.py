"""Faults of persistent kernels, clusters, split K and swapped operands."""

from . import barriers, epilogue, indices, numerics, pipeline
from .model import Fault, Kind

GROUP = "schedules"
STOP_ALONE = Kind(
    GROUP,
    "single tile only stopped",
    "a CTA with one tile drains a ring that nobody filled",
)
ALWAYS_STARTED = Kind(
    GROUP,
    "every tile started",
    "the ring is filled anew while the tile before still reads it",
)
RING_OF_A_TILE = Kind(
    GROUP, "ring not kept over tiles", "a tile finds another ring than was filled"
)
MIDST = Kind(
    GROUP,
    "tile begun in the midst of the ring",
    "steps are no multiple of the slots: loads and products take other slots",
)
TILES_SWAPPED = Kind(
    GROUP, "m and n of the tiles swapped", "the raster is of a grid that lies across"
)
SAME_TILES = Kind(
    GROUP, "same tiles for every CTA", "tiles are counted from the CTA's own first one"
)
NO_NEIGHBOUR = Kind(
    GROUP, "tile index without the neighbour", "both CTAs of a cluster take one tile"
)
NOT_SCALED = Kind(
    GROUP, "tile index of the cluster", "neighbours of two clusters take one tile"
)
BOTH_SHARED = Kind(
    GROUP, "both operands shared", "a CTA gets half of its own operand's tile from afar"
)
PART_OF_ANOTHER = Kind(
    GROUP, "part of K of another CTA", "some of K is summed twice, some never"
)
PARTS_OVERLAP = Kind(GROUP, "parts of K overlap", "a step is summed twice, one never")
PART_NOT_COMPUTED = Kind(GROUP, "part of K without a CTA", "a sum is never written")
ONE_PLACE = Kind(
    GROUP, "parts stored to one place", "CTAs overwrite each other's partial sums"
)
NOT_TURNED = Kind(
    GROUP, "transposed store missing", "the transposed product is stored as it is"
)
TURN_OF_OTHER = Kind(
    GROUP, "tiles of one warpgroup", "the other's tiles are not computed"
)
BARRIER_OF_OTHER = Kind(
    GROUP,
    "waits for the other's loads",
    "a warpgroup multiplies what is not loaded yet, or waits for ever",
)
STEP_OF_TILE = Kind(
    GROUP,
    "slots counted from each tile",
    "loads run on where the last tile ended, products begin anew",
)
NOT_GIVEN = Kind(GROUP, "turn not given", "the other warpgroup never begins its tile")
NOT_AWAITED = Kind(
    GROUP, "turn not awaited", "a turn is given twice before anyone has seen it"
)
PERSISTENT, PIECES = "persistent_ws", "persistent_ws_pieces"
PING_PONG = "ping_pong"
PAIRS, CLUSTER, SPLIT, SWAPPED = "persistent_cluster", "cluster", "split_k", "swapped"
STATE = "jnp.where(first, start, jnp.where(last, stop, steady))"
SNAKE = "plgpu.planar_snake(tile.index[0], tiles, "
RUN = "(a_gmem.at[rows, :], b_gmem.at[:, columns], allocations=ring)"
ACROSS = "    {0} = {0} * CLUSTER + lax.axis_index"
SUM = "kernel(*_forward_only(a, b)).sum(axis=0).astype(DTYPE)"
TURN = "out_smem.T[...] = plgpu.layout_cast(product, plgpu.Layout.WGMMA_TRANSPOSED)"
SWAPPED_WGMMA = "b_smem.at[:, _wg_columns()].T, a_smem.T"
SLOT = "out_smem.at[piece % STORE_SLOTS]"

FAULTS = (
    Fault(
        STOP_ALONE,
        (PERSISTENT,),
        ((STATE, "jnp.where(last, stop, jnp.where(first, start, steady))"),),
    ),
    Fault(
        ALWAYS_STARTED,
        (PERSISTENT, PAIRS),
        ((STATE, "jnp.full_like(first, start, jnp.int32)"), ("steady, stop", "_, _")),
    ),
    Fault(
        RING_OF_A_TILE,
        (PERSISTENT,),
        (
            ("pl.run_scoped, ring=ring, out_smem", "pl.run_scoped, out_smem"),
            ("def _(ring, out_smem)", "def _(out_smem)"),
            ("            pipeline(\n", "            run = pipeline(\n"),
            (
                f"            ){RUN}",
                "            )\n            pl.run_scoped(\n"
                f"                lambda ring: run{RUN},\n"
                '                ring=ring,\n                collective_axes="wg",\n'
                "            )",
            ),
        ),
    ),
    Fault(
        MIDST,
        (PERSISTENT, PAIRS),
        (("num_steps % MAX_CONCURRENT_STEPS:", "num_steps < 0:"),),
        sizes=(256, 128, 192),
    ),
    Fault(
        TILES_SWAPPED, (PERSISTENT,), ((SNAKE, SNAKE.replace("tiles", "tiles[::-1]")),)
    ),
    Fault(
        SAME_TILES,
        (PERSISTENT,),
        ((SNAKE, SNAKE.replace("tile.index[0]", "tile.local_index")),),
    ),
    Fault(NO_NEIGHBOUR, (PAIRS,), ((ACROSS.format("n"), "    _ = lax.axis_index"),)),
    Fault(NO_NEIGHBOUR, (CLUSTER,), ((ACROSS.format("m"), "    _ = lax.axis_index"),)),
    Fault(
        NOT_SCALED,
        (CLUSTER,),
        ((ACROSS.format("m"), "    m = m + lax.axis_index"),),
        sizes=(256, 64, 192),
    ),
    Fault(
        BOTH_SHARED,
        (PAIRS,),
        (("lambda ki: (ki, 0))", 'lambda ki: (ki, 0), "neighbour")'),),
    ),
    Fault(
        epilogue.FINAL_WAIT_MISSING,
        (PERSISTENT,),
        (("    plgpu.wait_smem_to_gmem(0)  # SMEM", "    pass  # SMEM"),),
    ),
    Fault(epilogue.SLOT_WAIT_MISSING, (PIECES,), ((epilogue.WAIT, "pass"),)),
    Fault(
        epilogue.WAIT_COUNT,
        (PIECES,),
        ((epilogue.WAIT, epilogue.WAIT.replace("STORE_SLOTS - 1", "STORE_SLOTS")),),
    ),
    Fault(
        epilogue.SLOT_TOO_EARLY,
        (PIECES,),
        ((SLOT, SLOT.replace("% STORE_SLOTS", "% (STORE_SLOTS - 1)")),),
    ),
    Fault(
        epilogue.COMMIT_TOO_LATE,
        (PIECES,),
        (
            ("    " + epilogue.COMMIT, ""),
            (epilogue.PIECE_COPY, epilogue.PIECE_COPY + "    " + epilogue.LATE),
        ),
    ),
    Fault(
        TURN_OF_OTHER,
        (PING_PONG,),
        (("@pl.when(_turn(tile) == wg)", "@pl.when(wg == 0)"),),
    ),
    Fault(
        BARRIER_OF_OTHER,
        (PING_PONG,),
        (("ring.loaded.at[wg * MAX_CONCURRENT_STEPS + slot]", "ring.loaded.at[slot]"),),
    ),
    Fault(
        STEP_OF_TILE,
        (PING_PONG,),
        (("slot = (first + k) %", "slot = k %"),),
    ),
    Fault(
        barriers.RELEASED_DURING_READ,
        (PING_PONG,),
        (
            ("_release(ring, first + k - 1)", "_release(ring, first + k)"),
            ("_release(ring, first + num_steps - 1)", "pass"),
            ("@pl.when(k > 0)", "@pl.when(k >= 0)"),
        ),
    ),
    Fault(
        barriers.ARRIVE_MISSING,
        (PING_PONG,),
        (("        _release(ring, first + num_steps - 1)\n", ""),),
    ),
    Fault(
        barriers.CONSUMED_WAIT_MISSING,
        (PING_PONG,),
        (
            ("plgpu.barrier_wait(ring.released.at[slot])", "pass"),
            (
                "plgpu.barrier_arrive(ring.released.at[step % MAX_CONCURRENT_STEPS])",
                "pass",
            ),
            (
                "    plgpu.barrier_wait(ring.released.at[step % MAX_CONCURRENT_STEPS])",
                "    pass",
            ),
        ),
    ),
    Fault(
        barriers.LOADED_WAIT_MISSING,
        (PING_PONG,),
        (
            (
                "plgpu.barrier_wait(ring.loaded.at[wg * MAX_CONCURRENT_STEPS + slot])",
                "pass",
            ),
        ),
    ),
    Fault(
        epilogue.SHARED_SLOT,
        (PING_PONG,),
        (("out_smem.at[wg]", "out_smem.at[0]"),),
    ),
    Fault(
        NOT_GIVEN,
        (PING_PONG,),
        (("plgpu.barrier_arrive(ring.turns.at[1 - wg])", "pass"),),
    ),
    Fault(
        NOT_AWAITED,
        (PING_PONG,),
        (("plgpu.barrier_wait(ring.turns.at[wg])", "pass"),),
    ),
    Fault(PART_OF_ANOTHER, (SPLIT,), (("first = part * num_steps", "first = 0"),)),
    Fault(
        pipeline.WRONG_STEP,
        (SPLIT,),
        (("lambda ki: (first + ki, n)", "lambda ki: (ki, n)"),),
    ),
    Fault(PARTS_OVERLAP, (SPLIT,), (("part * num_steps", "part * (num_steps - 1)"),)),
    Fault(PART_NOT_COMPUTED, (SPLIT,), (("grid=(SPLIT_K,", "grid=(SPLIT_K - 1,"),)),
    Fault(
        ONE_PLACE, (SPLIT,), (("out_gmem.at[part, rows", "out_gmem.at[part * 0, rows"),)
    ),
    Fault(
        numerics.PARTIAL_LOST, (SPLIT,), ((SUM, SUM.replace(".sum(axis=0)", "[0]")),)
    ),
    # In the kernel: outside of it XLA may leave out a cast to and fro.
    Fault(
        numerics.CAST_TOO_EARLY,
        (SPLIT,),
        (
            ("(SPLIT_K, m, n), jnp.float32)", "(SPLIT_K, m, n), DTYPE)"),
            ("jnp.float32, transforms=OUT_TRANSFORMS", "DTYPE, transforms=TRANSFORMS"),
            ("return acc[...]  #", "return acc[...].astype(DTYPE)  #"),
            (SUM, SUM.replace(".sum", ".astype(jnp.float32).sum")),
        ),
    ),
    Fault(numerics.SCALED, (SPLIT,), ((SUM, SUM.replace("sum", "mean")),)),
    Fault(
        indices.LAST_K_DROPPED,
        (SPLIT,),
        (
            (
                "num_steps=k // (SPLIT_K * TILE_K)",
                "num_steps=(k - 1) // (SPLIT_K * TILE_K)",
            ),
        ),
    ),
    Fault(NOT_TURNED, (SWAPPED,), ((TURN, "out_smem[...] = product"),)),
    Fault(
        indices.SLICES_EQUAL,
        (SWAPPED,),
        (("b_smem.at[:, _wg_columns()]", "b_smem.at[:, pl.ds(0, WG_N)]"),),
    ),
    Fault(
        indices.SLICES_CROSSED,
        (SWAPPED,),
        (
            (
                "out_gmem.at[:, _wg_columns()]",
                'out_gmem.at[:, pl.ds((1 - lax.axis_index("wg")) * WG_N, WG_N)]',
            ),
        ),
    ),
    Fault(
        indices.OUTPUTS_EQUAL,
        (SWAPPED,),
        (("out_gmem.at[:, _wg_columns()]", "out_gmem.at[:, pl.ds(0, WG_N)]"),),
    ),
    Fault(
        epilogue.SHARED_SLOT,
        (SWAPPED,),
        (('out_smem.at[lax.axis_index("wg")]', "out_smem.at[0]"),),
    ),
    Fault(
        indices.TRANSPOSED,
        (SWAPPED,),
        ((SWAPPED_WGMMA, SWAPPED_WGMMA.removesuffix(".T")),),
    ),
    Fault(
        numerics.OPERANDS_SWAPPED,
        (SWAPPED,),
        ((SWAPPED_WGMMA, "a_smem, b_smem.at[:, _wg_columns()]"),),
    ),
)
