"""Faults of gated linear units: two products that one kernel multiplies and combines."""

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

SILU = ("glu_silu",)
BOTH = ("glu_silu", "glu_gelu")
GATED = "x * _sigmoid(x) * up[:, columns]"

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
)
