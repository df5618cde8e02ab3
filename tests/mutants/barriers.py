"""Faults of barriers, in the ring that is written by hand."""

from .model import Fault, Kind

GROUP = "barriers"
LOADED_WAIT_MISSING = Kind(
    GROUP, "wait for the load missing", "a wgmma reads a slot that may not be loaded"
)
CONSUMED_WAIT_MISSING = Kind(
    GROUP, "wait for the free slot missing", "a slot is loaded before it has been read"
)
TOO_MANY_ARRIVALS = Kind(
    GROUP, "too many arrivals expected", "the barrier waits for one that never comes"
)
TOO_FEW_ARRIVALS = Kind(
    GROUP, "too few arrivals expected", "the barrier opens before all are done"
)
ARRIVE_MISSING = Kind(GROUP, "arrive missing", "nobody says that the slot is free")
ARRIVE_DOUBLED = Kind(
    GROUP, "arrive doubled", "one warpgroup arrives for the other one, too"
)
ARRIVE_OF_ONE = Kind(
    GROUP, "arrive of one warpgroup only", "the other one does not say it is done"
)
WAIT_ON_WRONG_SLOT = Kind(
    GROUP, "wait on the wrong slot's barrier", "the barrier is another slot's"
)
ARRIVE_ON_WRONG_SLOT = Kind(
    GROUP, "arrive on the wrong slot's barrier", "the first slot is said to be free"
)
COPY_ON_WRONG_BARRIER = Kind(
    GROUP, "copy on the wrong slot's barrier", "B arrives where nobody waits for it"
)
RELEASED_BEFORE_READ = Kind(
    GROUP, "slot released before the read", "the slot is free before the wgmma begins"
)
RELEASED_DURING_READ = Kind(
    GROUP, "slot released during the read", "the slot is free before the wgmma ends"
)
BARRIERS_SWAPPED = Kind(
    GROUP, "barriers swapped", "the loader waits for loads, not for free slots"
)
WAIT_AFTER_READ = Kind(
    GROUP, "wait after the read", "a wgmma begins before the wait for its slot"
)
WAITED_TWICE = Kind(GROUP, "wait doubled", "a second wait for a load that came once")

RING = ("ring",)
LOADED = "barrier_wait(loaded.at[slot])"
CONSUMED = "barrier_wait(consumed.at[slot])"
ARRIVE = "plgpu.barrier_arrive(consumed.at[slot])"
WGMMA = "plgpu.wgmma(acc, a_smem.at[slot, wg_rows], b_smem.at[slot])"
WAIT_LINE = f"                plgpu.{LOADED}  # Both copies have landed.\n"
WGMMA_LINE = f"                {WGMMA}\n"
DRAIN_LINE = "                plgpu.wgmma_wait(0)  # The slot has been read.\n"
ARRIVE_LINES = (
    "\n                @pl.when(ki + STAGES < num_steps)  # Nobody waits for later ones."
    f"\n                def _():\n                    {ARRIVE}\n"
)
ANOTHER = "lax.rem(ki + 1, STAGES)"

FAULTS = (
    Fault(LOADED_WAIT_MISSING, RING, ((WAIT_LINE, ""),)),
    Fault(CONSUMED_WAIT_MISSING, RING, ((f"plgpu.{CONSUMED}", "pass"),)),
    Fault(
        TOO_MANY_ARRIVALS,
        RING,
        (("num_arrivals=COMPUTE_WGS,", "num_arrivals=COMPUTE_WGS + 1,"),),
        variant="for a free slot",
    ),
    Fault(
        TOO_MANY_ARRIVALS,
        RING,
        (("num_arrivals=LOADS,", "num_arrivals=LOADS + 1,"),),
        variant="for a load",
    ),
    Fault(
        TOO_FEW_ARRIVALS,
        RING,
        (("num_arrivals=COMPUTE_WGS,", "num_arrivals=1,"),),
        variant="for a free slot",
    ),
    Fault(
        TOO_FEW_ARRIVALS,
        RING,
        (("num_arrivals=LOADS,", "num_arrivals=1,"),),
        variant="for a load",
    ),
    Fault(ARRIVE_MISSING, RING, ((ARRIVE, "pass"),)),
    Fault(ARRIVE_DOUBLED, RING, ((ARRIVE, f"{ARRIVE}\n                    {ARRIVE}"),)),
    Fault(
        ARRIVE_OF_ONE,
        RING,
        (
            (
                "@pl.when(ki + STAGES < num_steps)",
                "@pl.when((ki + STAGES < num_steps) & (wg == 0))",
            ),
        ),
    ),
    Fault(
        WAIT_ON_WRONG_SLOT,
        RING,
        ((LOADED, LOADED.replace("slot", ANOTHER)),),
        variant="consumer",
    ),
    Fault(
        WAIT_ON_WRONG_SLOT,
        RING,
        ((CONSUMED, CONSUMED.replace("slot", "0")),),
        variant="loader",
    ),
    Fault(ARRIVE_ON_WRONG_SLOT, RING, ((ARRIVE, ARRIVE.replace("slot", "0")),)),
    Fault(
        COPY_ON_WRONG_BARRIER,
        RING,
        (("b_slot, barrier)", f"b_slot, loaded.at[{ANOTHER}])"),),
    ),
    Fault(
        RELEASED_BEFORE_READ,
        RING,
        (
            (ARRIVE_LINES, ""),
            (WGMMA_LINE, ARRIVE_LINES + "\n" + WGMMA_LINE),
        ),
    ),
    Fault(
        RELEASED_DURING_READ,
        RING,
        ((DRAIN_LINE, ""), (ARRIVE_LINES, ARRIVE_LINES + "\n" + DRAIN_LINE)),
    ),
    Fault(BARRIERS_SWAPPED, RING, ((CONSUMED, LOADED),)),
    Fault(
        WAIT_AFTER_READ,
        RING,
        ((WAIT_LINE + WGMMA_LINE, WGMMA_LINE + WAIT_LINE),),
    ),
    Fault(WAITED_TWICE, RING, ((WAIT_LINE, WAIT_LINE * 2),)),
)
