"""Faults of indices: which piece of an operand or of the output is meant."""

from .model import Fault, Kind

GROUP = "indices"
OUTPUT_SWAPPED = Kind(GROUP, "m and n of the output swapped", "C's tiles change places")
GRID_SWAPPED = Kind(GROUP, "m and n of the grid swapped", "rows are counted as columns")
LAST_K_DROPPED = Kind(
    GROUP, "last K tile dropped", "the number of steps is rounded wrongly"
)
FIRST_K_DOUBLED = Kind(
    GROUP, "first K tile doubled", "the first tile is taken twice, the last one never"
)
SLICES_EQUAL = Kind(
    GROUP, "warpgroup slices equal", "both warpgroups multiply the same part"
)
OUTPUTS_EQUAL = Kind(
    GROUP, "warpgroup outputs equal", "both warpgroups store to the same part"
)
SLICES_CROSSED = Kind(
    GROUP, "warpgroup slices crossed", "each warpgroup stores where the other should"
)
RASTER_HEIGHT = Kind(
    GROUP, "raster group taken as full", "the last, lower group is walked as a full one"
)
RASTER_WIDTH = Kind(
    GROUP, "raster group of the wrong width", "groups overlap: tiles are lost"
)
RASTER_ORDER = Kind(
    GROUP, "m and n of the raster swapped", "the walk leaves the output and comes back"
)
BLOCK_LOST = Kind(GROUP, "output block lost", "one tile of the output is not stored")
LAST_COLUMN_LOST = Kind(
    GROUP, "last column of tiles lost", "the grid is one tile too short"
)
LAST_TILE_LOST = Kind(
    GROUP, "last tile of the walk lost", "the persistent loop ends one tile early"
)
STRIDE = Kind(
    GROUP, "stride of the walk wrong", "two CTAs share tiles, and others are nobody's"
)
TRANSPOSED = Kind(
    GROUP, "transposed operand", "A or B is multiplied where A.T or B.T was meant"
)
ROWS_OF_N = Kind(GROUP, "operand rows by the wrong index", "A's rows are chosen by n")
NEIGHBOUR = Kind(
    GROUP,
    "wrong operand shared",
    "the cluster's CTAs share the one of which each needs another tile",
)

PIPELINED, WS, CALL = "pipelined", "warp_specialized", "pallas_call"
ALL = (PIPELINED, WS, CALL)
ROWS = "rows, columns = pl.ds(m * TILE_M, TILE_M), pl.ds(n * TILE_N, TILE_N)"
A_BLOCK = "_block((TILE_M, TILE_K), lambda ki: (m, ki))"
B_BLOCK = "_block((TILE_K, TILE_N), lambda ki: (ki, n))"
STEPS = "num_steps=k // TILE_K"

FAULTS = (
    Fault(
        OUTPUT_SWAPPED,
        (PIPELINED,),
        (("out_gmem.at[rows, columns]", "out_gmem.at[columns, rows]"),),
    ),
    Fault(OUTPUT_SWAPPED, (CALL,), (("lambda _: (m, n)", "lambda _: (n, m)"),)),
    Fault(
        OUTPUT_SWAPPED,
        (WS,),
        (
            (
                ROWS,
                "rows, columns = pl.ds(n * TILE_M, TILE_M), pl.ds(m * TILE_N, TILE_N)",
            ),
        ),
    ),
    Fault(GRID_SWAPPED, ALL[:2], (('grid_names=("m", "n")', 'grid_names=("n", "m")'),)),
    Fault(
        LAST_K_DROPPED,
        ALL,
        ((STEPS, "num_steps=(k - 1) // TILE_K"),),
    ),
    Fault(
        FIRST_K_DOUBLED,
        ALL[::2],
        (
            (A_BLOCK, A_BLOCK.replace("(m, ki)", "(m, jnp.maximum(ki - 1, 0))")),
            (B_BLOCK, B_BLOCK.replace("(ki, n)", "(jnp.maximum(ki - 1, 0), n)")),
        ),
    ),
    Fault(
        SLICES_EQUAL,
        (WS,),
        (("a_smem.at[_wg_rows()]", "a_smem.at[pl.ds(0, WG_M)]"),),
    ),
    Fault(
        SLICES_EQUAL,
        ("warp_specialized_split_n",),
        (("b_smem.at[:, _wg_columns()]", "b_smem.at[:, pl.ds(0, WG_N)]"),),
    ),
    Fault(
        SLICES_EQUAL,
        ("ring",),
        (("a_smem.at[slot, wg_rows]", "a_smem.at[slot, pl.ds(0, WG_M)]"),),
    ),
    Fault(
        OUTPUTS_EQUAL,
        (WS,),
        (("out_gmem.at[_wg_rows()]", "out_gmem.at[pl.ds(0, WG_M)]"),),
    ),
    Fault(
        SLICES_CROSSED,
        (WS,),
        (
            (
                "out_gmem.at[_wg_rows()]",
                'out_gmem.at[pl.ds((1 - lax.axis_index("wg")) * WG_M, WG_M)]',
            ),
        ),
    ),
    Fault(
        RASTER_HEIGHT,
        ("persistent",),
        (("jnp.minimum(GROUP_M, tiles_m - group * GROUP_M)", "jnp.int32(GROUP_M)"),),
    ),
    Fault(
        RASTER_WIDTH,
        ("persistent",),
        (
            (
                "index // (GROUP_M * tiles_n), index % (GROUP_M * tiles_n)",
                "index // (GROUP_M * tiles_m), index % (GROUP_M * tiles_m)",
            ),
        ),
    ),
    Fault(
        RASTER_ORDER,
        ("persistent_ws",),
        (("m, n = ", "n, m = "),),
    ),
    Fault(
        BLOCK_LOST,
        (PIPELINED, WS),
        (
            (
                "    plgpu.copy_smem_to_gmem(out_smem, out_gmem)\n",
                '    lost = (lax.axis_index("m") == 0) & (lax.axis_index("n") == 1)\n\n'
                "    @pl.when(~lost)\n    def _():\n"
                "        plgpu.copy_smem_to_gmem(out_smem, out_gmem)\n\n",
            ),
        ),
    ),
    Fault(
        LAST_COLUMN_LOST,
        ALL[1:],
        (
            (
                "grid=(m // TILE_M, n // TILE_N)",
                "grid=(m // TILE_M, (n - 1) // TILE_N)",
            ),
        ),
    ),
    Fault(
        LAST_TILE_LOST,
        ("persistent_ws",),
        (("nd_loop((num_tiles,)", "nd_loop((num_tiles - 1,)"),),
    ),
    Fault(
        STRIDE,
        ("persistent",),
        (
            (
                "_raster(tile.index[0], *tiles)",
                '_raster(tile.local_index + lax.axis_index("cta"), *tiles)',
            ),
        ),
    ),
    Fault(TRANSPOSED, ("pipelined_nt",), (("b_smem.T", "b_smem"),)),
    Fault(TRANSPOSED, ("pipelined_tt_column",), (("a_smem.T", "a_smem"),)),
    Fault(
        OUTPUT_SWAPPED,
        ("pipelined_tt_column",),
        (("out_gmem.at[columns, rows]", "out_gmem.at[rows, columns]"),),
    ),
    Fault(TRANSPOSED, (PIPELINED,), (("a_smem, b_smem)\n", "a_smem, b_smem.T)\n"),)),
    Fault(
        TRANSPOSED,
        (CALL,),
        (("wgmma(acc, a_smem, b_smem)", "wgmma(acc, a_smem.T, b_smem)"),),
    ),
    Fault(ROWS_OF_N, (WS,), ((A_BLOCK, A_BLOCK.replace("(m, ki)", "(n, ki)")),)),
    Fault(
        NEIGHBOUR,
        ("cluster",),
        (
            ('lambda ki: (ki, n), "neighbour")', "lambda ki: (ki, n))"),
            ("lambda ki: (m, ki))", 'lambda ki: (m, ki), "neighbour")'),
        ),
    ),
)
