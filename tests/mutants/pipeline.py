"""Faults of pipelines: the ring of SMEM slots and the steps of K."""

from .model import Fault, Kind

GROUP = "pipeline"
DELAY_DROPPED = Kind(
    GROUP,
    "delay dropped",
    "`delay_release` 0 with one wgmma in flight: its slot is loaded anew under it",
)
ONE_MORE_IN_FLIGHT = Kind(
    GROUP,
    "one more wgmma in flight",
    "`wgmma_wait` leaves one more than the release of the slot allows for",
)
WGMMA_WAIT_MISSING = Kind(
    GROUP, "wgmma wait missing", "no `wgmma_wait` before the slot is released"
)
TOO_FEW_STAGES = Kind(
    GROUP,
    "stages no more than delay",
    "`max_concurrent_steps` equal to `delay_release`: no slot is ever free",
)
ONE_STEP_LESS = Kind(GROUP, "one step less", "the pipeline ends before its last step")
ONE_STEP_MORE = Kind(
    GROUP, "one step more", "the consumer takes a step that nobody loads"
)
WRONG_STEP = Kind(
    GROUP, "index map of the wrong step", "A's tile and B's are not of the same step"
)
SLOT_MODULO = Kind(
    GROUP, "slot modulo wrong", "loader and consumer disagree on a step's slot"
)
SLOT_OF_NEXT_STEP = Kind(
    GROUP, "operands of different slots", "B is read from the slot of another step"
)
NEVER_DRAINED = Kind(
    GROUP, "drain missing", "a load that nobody waits for is in flight at the end"
)
NEVER_FILLED = Kind(
    GROUP, "prologue missing", "the ring is drained though nobody filled it"
)
PROLOGUE_TOO_LONG = Kind(
    GROUP, "prologue too long", "the loader fills one more slot than there is, unasked"
)
PROLOGUE_TOO_SHORT = Kind(
    GROUP, "prologue too short", "the loader waits for a slot that nobody used yet"
)
STEP_SKIPPED = Kind(
    GROUP, "step skipped", "one step in the middle is loaded but not multiplied"
)

PIPELINED, DRAINED = "pipelined", "pipelined_drained"
WS, WS_DRAINED = "warp_specialized", "warp_specialized_drained"
CALL, CALL_DRAINED = "pallas_call", "pallas_call_drained"
ALL = (PIPELINED, WS, CALL)
ALL_DRAINED = (DRAINED, WS_DRAINED, CALL_DRAINED)
B_BLOCK = "_block((TILE_K, TILE_N), lambda ki: (ki, n))"
STATE = "jnp.where(first, start, jnp.where(last, stop, steady))"
WGMMA = "plgpu.wgmma(acc, a_smem, b_smem)"
RING_WGMMA = "plgpu.wgmma(acc, a_smem.at[slot, wg_rows], b_smem.at[slot])"

FAULTS = (
    Fault(
        DELAY_DROPPED,
        ALL,
        (("DELAY_RELEASE = 1", "DELAY_RELEASE = 0"),),
    ),
    Fault(
        ONE_MORE_IN_FLIGHT,
        (*ALL_DRAINED, "ring", "persistent_ws"),
        (("wgmma_wait(0)", "wgmma_wait(1)"),),
    ),
    Fault(
        WGMMA_WAIT_MISSING,
        (*ALL_DRAINED, "persistent", "cluster"),
        (("    plgpu.wgmma_wait(0)", "    pass"),),
    ),
    # One is in flight when a step ends; and then all.
    Fault(
        WGMMA_WAIT_MISSING,
        (PIPELINED, WS, CALL, "ping_pong"),
        (("    plgpu.wgmma_wait(WGMMA_IN_FLIGHT)", "    pass"),),
    ),
    Fault(
        ONE_MORE_IN_FLIGHT,
        (PIPELINED, WS, "ping_pong"),
        (("WGMMA_IN_FLIGHT = 1", "WGMMA_IN_FLIGHT = 2"),),
    ),
    Fault(
        TOO_FEW_STAGES,
        (PIPELINED, CALL),
        (("MAX_CONCURRENT_STEPS = 3", "MAX_CONCURRENT_STEPS = 1"),),
    ),
    Fault(
        TOO_FEW_STAGES,
        (WS,),
        (("MAX_CONCURRENT_STEPS = 2", "MAX_CONCURRENT_STEPS = 1"),),
    ),
    Fault(ONE_STEP_LESS, ALL, (("grid=(num_steps,)", "grid=(num_steps - 1,)"),)),
    Fault(
        ONE_STEP_LESS,
        ("ring",),
        (("@pl.loop(0, num_steps)", "@pl.loop(0, num_steps - 1)", 2),),
    ),
    Fault(
        ONE_STEP_MORE,
        ("ring",),
        (
            (
                "def multiply(acc):\n            @pl.loop(0, num_steps)",
                "def multiply(acc):\n            @pl.loop(0, num_steps + 1)",
            ),
        ),
    ),
    Fault(
        WRONG_STEP,
        ALL,
        ((B_BLOCK, B_BLOCK.replace("(ki, n)", "(num_steps - 1 - ki, n)")),),
    ),
    Fault(
        WRONG_STEP,
        ("two_halves",),
        (("lambda ki: (first + ki, n)", "lambda ki: (ki, n)"),),
    ),
    Fault(
        SLOT_MODULO,
        ("ring",),
        (
            (
                "slot = lax.rem(ki, STAGES)\n                plgpu.barrier_wait",
                "slot = lax.rem(ki, STAGES - 1)\n                plgpu.barrier_wait",
            ),
        ),
    ),
    Fault(
        SLOT_MODULO,
        ("ring",),
        (("lax.rem(ki, STAGES)", "lax.rem(ki, STAGES + 1)", 2),),
        variant="beyond the ring",
    ),
    Fault(
        SLOT_OF_NEXT_STEP,
        ("ring",),
        (
            (
                RING_WGMMA,
                RING_WGMMA.replace(
                    "b_smem.at[slot]", "b_smem.at[lax.rem(ki + 1, STAGES)]"
                ),
            ),
        ),
    ),
    Fault(
        NEVER_DRAINED,
        ("ring",),
        (
            (
                "_load():\n        plgpu.set_max_registers(MEMORY_REGISTERS,"
                ' action="decrease")\n\n        @pl.loop(0, num_steps)',
                "_load():\n        plgpu.set_max_registers(MEMORY_REGISTERS,"
                ' action="decrease")\n\n        @pl.loop(0, num_steps + 1)',
            ),
            ("pl.ds(ki * TILE_K, TILE_K)", "pl.ds(ki % num_steps * TILE_K, TILE_K)"),
            ("ki + STAGES < num_steps", "ki + STAGES <= num_steps"),
        ),
    ),
    Fault(
        NEVER_FILLED,
        ("persistent_ws",),
        ((STATE, "jnp.where(last, stop, steady)"), ("start, steady, ", "_, steady, ")),
    ),
    Fault(PROLOGUE_TOO_LONG, ("ring",), (("ki >= STAGES)", "ki >= STAGES + 1)"),)),
    Fault(PROLOGUE_TOO_SHORT, ("ring",), (("ki >= STAGES)", "ki >= STAGES - 1)"),)),
    Fault(
        STEP_SKIPPED,
        (PIPELINED,),
        (
            ("def step(_, a_smem, b_smem):", "def step(indices, a_smem, b_smem):"),
            (
                f"            {WGMMA}\n",
                "            @pl.when(indices[0] != 1)\n            def _():\n"
                f"                {WGMMA}\n\n",
            ),
        ),
    ),
)
