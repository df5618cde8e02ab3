"""Faults of gated linear units: two products that one kernel multiplies and combines."""

from .edges import NOT_CUT
from .model import Fault, Kind

GROUP = "gates"
SWAPPED = Kind(GROUP, "gate and up swapped", "the activation is that of the other one")
MISSED = Kind(GROUP, "activation missed", "the products are multiplied as they are")
WRONG_HALF = Kind(
    GROUP, "activation of both", "what should pass as it is passes the activation too"
)
ONE_WEIGHT = Kind(GROUP, "one weight twice", "both sums are of the same weight")
ONE_SUM = Kind(GROUP, "both into one sum", "the products share an accumulator")
SECOND_DROPPED = Kind(GROUP, "second sum dropped", "the gate is multiplied with itself")
RELEASED_EARLY = Kind(
    GROUP,
    "second weight released too early",
    "its slot is loaded again while the tensor cores read it",
)
WRONG_COLUMNS = Kind(
    GROUP, "other columns of up", "the gate is multiplied with another piece's columns"
)

READ_EARLY = Kind(GROUP, "gate read too early", "its last product is still being added")
LAST_DROPPED = Kind(
    GROUP, "last step dropped", "the sums lack a step, whose slot is kept for good"
)
LAST_TWICE = Kind(
    GROUP, "a step waited for twice", "it is loaded once, and the kernel hangs"
)
WRONG_ROWS = Kind(
    GROUP, "other rows of up", "the gate is multiplied with another piece's rows"
)
SLOT_OVERWRITTEN = Kind(
    GROUP, "piece of rows stored too early", "TMA still reads the piece before"
)
SECOND_NOT_PADDED = Kind(
    GROUP, "second weight not padded", "TMA is told of rows that it does not take"
)

SILU = ("glu_silu",)
BOTH = ("glu_silu", "glu_gelu")
FIRST = ("glu_gate_first",)
GATED = "x * _sigmoid(x) * up[:, columns]"

LAST_GATE = """        slot = _loaded_slot(ring, step)
        _add_product(gate_acc, ring.x_smem.at[slot], ring.gate_smem.at[slot])
"""
LAST_UP = "    up = up_acc[...]  # Waits for the last wgmma.\n"
LAST_RELEASES = """    for step in last_steps:
        _release(ring, step)
"""

FAULTS = (
    Fault(
        SWAPPED,
        BOTH,
        (("_forward_only(x, w_gate, w_up)", "_forward_only(x, w_up, w_gate)"),),
    ),
    Fault(
        SWAPPED,
        SILU,
        (("return gate_acc[...], up_acc[...]", "return up_acc[...], gate_acc[...]"),),
        variant="sums",
    ),
    Fault(MISSED, SILU, ((GATED, "x * up[:, columns]"),)),
    Fault(
        WRONG_HALF,
        SILU,
        ((GATED, f"{GATED} * _sigmoid(up[:, columns])"),),
    ),
    Fault(
        ONE_WEIGHT,
        SILU,
        (("_forward_only(x, w_gate, w_up)", "_forward_only(x, w_gate, w_gate)"),),
    ),
    Fault(ONE_SUM, SILU, (("plgpu.wgmma(up_acc", "plgpu.wgmma(gate_acc"),)),
    Fault(
        SECOND_DROPPED,
        SILU,
        (("return gate_acc[...], up_acc[...]", "return gate_acc[...], gate_acc[...]"),),
    ),
    # The wait of a step is for the first product alone.
    Fault(
        RELEASED_EARLY,
        SILU,
        (("plgpu.wgmma_wait(0)", "plgpu.wgmma_wait(1)"),),
    ),
    Fault(
        WRONG_COLUMNS,
        SILU,
        ((GATED, GATED.replace("up[:, columns]", "up[:, :STORE_N]")),),
    ),
    Fault(READ_EARLY, FIRST, (("wait_n=last)", "wait_n=last + 1)"),)),
    Fault(
        RELEASED_EARLY,
        FIRST,
        ((f"{LAST_UP}{LAST_RELEASES}", f"{LAST_RELEASES}{LAST_UP}"),),
        variant="of the last steps",
    ),
    Fault(
        SWAPPED,
        FIRST,
        ((LAST_GATE, LAST_GATE.replace("gate_smem", "up_smem")),),
        variant="in the last steps",
    ),
    Fault(MISSED, FIRST, (("    gate = gate * _sigmoid(gate)\n", ""),)),
    Fault(
        LAST_DROPPED,
        FIRST,
        (
            (
                "range(num_steps - last, num_steps)",
                "range(num_steps - last, num_steps - 1)",
            ),
        ),
    ),
    Fault(
        LAST_TWICE,
        FIRST,
        (("@pl.loop(0, num_steps - last)", "@pl.loop(0, num_steps - last + 1)"),),
    ),
    Fault(WRONG_ROWS, FIRST, (("up[:, rows]", "up[:, : rows.stop - rows.start]"),)),
    Fault(
        SLOT_OVERWRITTEN,
        FIRST,
        (("wait_smem_to_gmem(STORE_SLOTS - 1,", "wait_smem_to_gmem(STORE_SLOTS,"),),
    ),
    Fault(NOT_CUT, FIRST, (("[:m, :n]", ""),)),
    Fault(SECOND_NOT_PADDED, FIRST, ((", _pad(w_up)", ", w_up"),)),
)
