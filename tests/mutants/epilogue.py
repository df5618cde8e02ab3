"""Faults of epilogues: from the accumulator through SMEM to the output."""

from .model import Fault, Kind

GROUP = "epilogue"
COMMIT_MISSING = Kind(
    GROUP, "commit missing", "TMA reads SMEM before it sees what was stored there"
)
COMMIT_TOO_LATE = Kind(
    GROUP, "commit after the copy", "the stores are committed when TMA may have read"
)
WAIT_COUNT = Kind(
    GROUP, "wait count off by one", "one copy too many may still read the slot"
)
SLOT_WAIT_MISSING = Kind(
    GROUP, "wait for the slot missing", "a slot is overwritten while TMA reads it"
)
SLOT_TOO_EARLY = Kind(
    GROUP,
    "slot reused too early",
    "the pieces take turns in fewer slots than waited for",
)
FINAL_WAIT_MISSING = Kind(
    GROUP, "final wait missing", "the CTA and its SMEM are gone while TMA reads"
)
WRONG_PIECE = Kind(GROUP, "store of the wrong piece", "a piece is written elsewhere")
FIRST_PIECE_ONLY = Kind(
    GROUP, "same piece every time", "every piece is filled with the first one"
)
PIECE_LOST = Kind(GROUP, "piece lost", "the last piece is never stored")
SHARED_SLOT = Kind(
    GROUP, "slot shared by warpgroups", "two warpgroups store through one slot"
)
READ_TOO_EARLY = Kind(
    GROUP, "accumulator read too early", "the output is made before the last step"
)
NEVER_STORED = Kind(
    GROUP, "store before the product", "the copy leaves before SMEM is filled"
)
UNDER_TMA = Kind(
    GROUP, "store under the copy", "SMEM is written again while TMA reads it"
)

PIECES = ("pipelined_pieces", "warp_specialized_pieces")
WHOLE = ("pipelined", "warp_specialized")
COMMIT = "    plgpu.commit_smem()  # TMA must see the stores above.\n"
COPY = "    plgpu.copy_smem_to_gmem(out_smem, out_gmem)\n"
PIECE_COPY = "    plgpu.copy_smem_to_gmem(slot, out_gmem.at[:, columns])\n"
LATE = "    plgpu.commit_smem()\n"
FINAL = "    plgpu.wait_smem_to_gmem(0)  # SMEM must outlive the cop"
WAIT = "plgpu.wait_smem_to_gmem(STORE_SLOTS - 1, wait_read_only=True)"

FAULTS = (
    Fault(
        COMMIT_MISSING,
        (*WHOLE, "pipelined_pieces", "ring", "persistent_ws"),
        ((COMMIT.lstrip(), "pass\n"),),
    ),
    Fault(COMMIT_TOO_LATE, WHOLE[:1], ((COMMIT, ""), (COPY, COPY + LATE))),
    Fault(
        COMMIT_TOO_LATE,
        PIECES[1:],
        (("    " + COMMIT, ""), (PIECE_COPY, PIECE_COPY + "    " + LATE)),
    ),
    Fault(
        WAIT_COUNT,
        (*PIECES, "persistent"),
        ((WAIT, WAIT.replace("STORE_SLOTS - 1", "STORE_SLOTS")),),
    ),
    Fault(SLOT_WAIT_MISSING, (PIECES[0], "persistent"), ((WAIT, "pass"),)),
    # One too many would be none: a warp-specialised pipeline commits a group per step.
    Fault(
        SLOT_WAIT_MISSING,
        ("persistent_ws",),
        (("plgpu.wait_smem_to_gmem(0, wait_read_only=True)", "pass"),),
    ),
    Fault(
        SLOT_TOO_EARLY,
        PIECES[1:],
        (("out_smem.at[piece % STORE_SLOTS]", "out_smem.at[0]"),),
    ),
    Fault(
        SLOT_TOO_EARLY,
        ("persistent",),
        (("out_smem.at[tile.local_index % STORE_SLOTS]", "out_smem.at[0]"),),
    ),
    Fault(
        FINAL_WAIT_MISSING,
        (*WHOLE, "pipelined_pieces", "ring", "persistent"),
        ((FINAL, "    pass  # SMEM must outlive the cop"),),
    ),
    Fault(
        WRONG_PIECE,
        PIECES[:1],
        (
            (
                "out_gmem.at[:, columns]",
                "out_gmem.at[:, TILE_N - columns.stop : TILE_N - columns.start]",
            ),
        ),
    ),
    Fault(
        FIRST_PIECE_ONLY,
        PIECES[1:],
        (("product[:, columns]", "product[:, :STORE_N]"),),
    ),
    Fault(
        PIECE_LOST,
        PIECES[:1],
        (("range(TILE_N // STORE_N)", "range(TILE_N // STORE_N - 1)"),),
    ),
    Fault(
        SHARED_SLOT,
        ("warp_specialized", "persistent_ws"),
        (('out_smem.at[lax.axis_index("wg")]', "out_smem.at[0]"),),
    ),
    Fault(
        SHARED_SLOT,
        ("ring",),
        (("out_smem[wg] =", "out_smem[0] ="), ("out_smem.at[wg]", "out_smem.at[0]")),
    ),
    Fault(
        READ_TOO_EARLY,
        ("pallas_call",),
        (("indices[0] == last_step", "indices[0] == last_step - 1"),),
    ),
    Fault(
        NEVER_STORED,
        WHOLE,
        (
            (COPY, ""),
            ("    out_smem[...] = product\n", COPY + "    out_smem[...] = product\n"),
        ),
    ),
    Fault(UNDER_TMA, WHOLE, ((COPY, COPY + "    out_smem[...] = product * 0\n"),)),
)
