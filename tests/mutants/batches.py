"""Faults of a batch: which matrix of an operand or of the result is meant."""

from .model import Fault, Kind

GROUP = "batches"
A_INDEX_DROPPED = Kind(
    GROUP, "matrix of A dropped", "every product is that of A's first matrix"
)
B_INDEX_DROPPED = Kind(
    GROUP, "matrix of B dropped", "every product is that of B's first matrix"
)
OTHERS_INDEX = Kind(
    GROUP,
    "one matrix taken for many",
    "the only matrix is counted through, as of a batch",
)
C_INDEX_DROPPED = Kind(
    GROUP, "matrix of C dropped", "all products are stored over the first"
)
C_REVERSED = Kind(
    GROUP, "batch of C in another order", "each product is stored where another belongs"
)
BIAS_INDEX_DROPPED = Kind(
    GROUP, "argument of another matrix", "every output has the bias of the first"
)
LAST_MATRIX_LOST = Kind(GROUP, "last matrix lost", "the batch ends one matrix early")
REPEATED_WRONGLY = Kind(
    GROUP,
    "repeated along the wrong dimension",
    "an operand's matrices follow each other where each should be repeated",
)
CROSSED = Kind(
    GROUP,
    "tile and matrix crossed",
    "tiles are counted as matrices, and matrices as tiles",
)

GRID, WALK, TURNS = "batched", "batched_persistent", "batched_ping_pong"
CHAIN = "batched_chain"
ALONE, MIXED = "batched_a_alone", "batched_mixed"

FAULTS = (
    Fault(
        A_INDEX_DROPPED,
        (GRID, WALK, TURNS),
        (("_matrix(a_gmem, batch)", "_matrix(a_gmem, 0)"),),
    ),
    Fault(
        B_INDEX_DROPPED,
        (GRID, WALK, TURNS),
        (("_matrix(b_gmem, batch)", "_matrix(b_gmem, 0)"),),
    ),
    Fault(
        OTHERS_INDEX,
        (ALONE,),
        (("batch if operand_gmem.shape[0] > 1 else 0", "batch"),),
    ),
    Fault(
        C_INDEX_DROPPED,
        (GRID, WALK, TURNS),
        (("out_gmem.at[batch, rows", "out_gmem.at[0, rows"),),
    ),
    Fault(
        C_REVERSED,
        (GRID,),
        (
            (
                "out_gmem.at[batch, rows",
                'out_gmem.at[lax.axis_size("batch") - 1 - batch, rows',
            ),
        ),
    ),
    Fault(
        C_REVERSED,
        (WALK,),
        (("out_gmem.at[batch, rows", "out_gmem.at[tiles[0] - 1 - batch, rows"),),
    ),
    Fault(
        BIAS_INDEX_DROPPED,
        (CHAIN,),
        (("_matrix(bias_gmem, batch)", "_matrix(bias_gmem, 0)"),),
    ),
    Fault(
        LAST_MATRIX_LOST,
        (GRID,),
        (("grid=(num_matrices, ", "grid=(num_matrices - 1, "),),
    ),
    Fault(
        LAST_MATRIX_LOST,
        (TURNS,),
        (("(tiles[0], tiles[1] * tiles[2])", "(tiles[0] - 1, tiles[1] * tiles[2])"),),
    ),
    Fault(
        REPEATED_WRONGLY,
        (MIXED,),
        (
            (
                "operand = jnp.broadcast_to(operand, (*batch, rows, columns))",
                "operand = jnp.tile(operand.reshape(-1, rows, columns), (2, 1, 1))",
            ),
        ),
    ),
    Fault(
        CROSSED,
        (WALK, TURNS),
        (("batch, index = tile.index", "index, batch = tile.index"),),
    ),
)
