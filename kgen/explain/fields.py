"""What each figure of `kgen explain` means: its label in tables, its line in the docs.

Keys and their order are those of `kgen.explain.figures`.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Field:
    """One figure.

    Attributes:
      label: What the table calls it; empty where the table shows it with another one.
      about: What it is, and in which unit.
    """

    label: str
    about: str


FIELDS: dict[str, dict[str, Field]] = {
    "kernel": {
        "name": Field("", "Name of the module."),
        "op": Field("operation", "Operation."),
        "a_dtype": Field("dtypes", "Elements of A; of x, in a gated linear unit."),
        "b_dtype": Field("", "Elements of B, or of both weights."),
        "out_dtype": Field("", "Elements of the result."),
        "accumulator_dtype": Field("accumulator", "Elements of the accumulator."),
        "layout": Field(
            "layout", "`nn`, `nt`, `tn` or `tt`: how A and B lie, or x and the weights."
        ),
        "out_order": Field(
            "output", "`row`, or `column` if the result is in column-major order."
        ),
        "arch": Field("architecture", "GPU architecture, as ptxas names it."),
        "schedule": Field(
            "schedule", "`pipelined`, `warp_specialized` or `pallas_call`."
        ),
        "persistent": Field("", "Whether a CTA works through several output tiles."),
        "ping_pong": Field(
            "", "Whether the compute warpgroups take turns, a whole tile each."
        ),
        "raster_order": Field(
            "tiles", "Dimension across a band of tiles; null for rows of tiles."
        ),
        "raster_width": Field("", "Tiles across a band; null for rows of tiles."),
        "cluster_m": Field("cluster", "CTAs of a cluster along m, and along n."),
        "cluster_n": Field("", "The same along n."),
        "split_k": Field("parts of K", "CTAs that share a tile, each a part of K."),
        "swap_operands": Field(
            "swapped", "Whether rows of the output are columns of wgmma."
        ),
        "edge": Field("edge", "`exact`, or `any` if every size is taken."),
        "epilogue": Field(
            "epilogue", "Steps between the accumulator and the output, in their order."
        ),
        "activation": Field("activation", "Of a gated linear unit: `silu` or `gelu`."),
        "entry_point": Field("entry point", "`kernel` or `pallas_call`."),
        "spec_file": Field("spec", "File name of the spec."),
        "spec_digest": Field("digest", "Digest of what the spec says."),
        "allowed_rules": Field(
            "may break", "Codes of the legality rules that the kernel may break."
        ),
    },
    "tile": {
        "m": Field("tile m x n x k", "Rows of the output tile of one CTA."),
        "n": Field("", "Columns of the same."),
        "k": Field("", "Depth of one pipeline step."),
        "num_warpgroups": Field("warpgroups", "Warpgroups of one CTA."),
        "num_compute_wgs": Field("", "Warpgroups that multiply."),
        "threads_per_cta": Field("threads per CTA", "Threads of one CTA."),
        "split": Field(
            "split", "Dimension that several compute warpgroups split; null for one."
        ),
        "wg_m": Field("warpgroup m x n", "Rows of one compute warpgroup's part."),
        "wg_n": Field("", "Columns of the same."),
    },
    "pipeline": {
        "max_concurrent_steps": Field("stages", "Slots of the SMEM ring."),
        "delay_release_steps": Field(
            "delay_release", "Steps after which a slot is released."
        ),
        "wgmma_in_flight": Field(
            "wgmma in flight", "wgmma operations that run on when a step ends."
        ),
        "promoted_every": Field(
            "promoted every",
            "Elements of k whose sum is added to one in registers; null for all.",
        ),
        "scale_block": Field(
            "blocks of scales",
            "Elements of k, and rows of B, that share a scale; null without scales.",
        ),
        "gate_first": Field(
            "gate first",
            "Last steps in which all products with the first weight come first.",
        ),
        "store_m": Field("rows stored at once", "Rows of one piece of output."),
        "store_n": Field("columns stored at once", "Columns of one piece of output."),
        "store_slots": Field("slots for stores", "SMEM slots of the output."),
    },
    "layouts": {
        "operand": Field(
            "operand",
            "`a`, `b` or `out`; of a gated linear unit `x`, `w_gate`, `w_up` or `out`.",
        ),
        "swizzle_bytes": Field("swizzle", "Width of the swizzle; null for plain rows."),
        "tiling": Field("tiling", "Tile of the TilingTransform; null for plain rows."),
        "reason": Field("why", "Why this one."),
    },
    "smem": {
        "limit_bytes": Field("limit", "SMEM that a CTA may use."),
        "total_bytes": Field("total", "SMEM that it uses, for any long enough k."),
        "free_bytes": Field("free", "What is left."),
        "used_ratio": Field("used", "Total over limit."),
        "buffers": Field(
            "buffer",
            "Each with `name`, `shape` of one slot, `dtype`, `slots` and `bytes`.",
        ),
    },
    "registers": {
        "accumulator_per_thread": Field(
            "accumulator", "Registers per thread that the accumulator takes."
        ),
        "other_per_thread": Field("everything else", "kgen's estimate of the others."),
        "estimate_per_thread": Field("estimate", "Their sum."),
        "compute_limit_per_thread": Field(
            "limit", "The most that a thread of a compute warpgroup may use."
        ),
        "memory_limit_per_thread": Field(
            "limit of the memory warpgroup", "The same there; null without one."
        ),
        "per_cta": Field("registers per CTA", "Registers of all threads of one CTA."),
    },
    "occupancy": {
        "ctas_per_sm": Field("CTAs per SM", "CTAs that run on one SM at once."),
        "by_smem": Field("by SMEM", "CTAs whose SMEM fits."),
        "by_registers": Field(
            "by registers", "CTAs whose registers fit, by the estimate."
        ),
        "by_threads": Field("by threads", "CTAs whose threads fit."),
    },
    "shape": {
        "m": Field("m x n x k", "Rows of the output."),
        "n": Field("", "Columns of the output."),
        "k": Field("", "Reduction length."),
        "batch": Field(
            "batch", "Leading dimensions of A, B and the result; empty for one matrix."
        ),
        "grid": Field("grid", "Output tiles of one matrix along m and n."),
        "ctas": Field(
            "CTAs",
            "Tiles of all matrices times parts of K; as many CTAs, if not persistent.",
        ),
        "cta_slots": Field("CTAs at once", "CTAs that the whole GPU runs at once."),
        "waves": Field("waves", "CTAs over CTAs at once."),
        "tail_efficiency_ratio": Field(
            "tail efficiency", "CTAs over the slots of all waves begun."
        ),
        "steps": Field("steps", "Pipeline steps of one tile."),
        "concurrent_steps": Field(
            "stages in use", "Slots of the ring, clamped to the steps."
        ),
        "flops": Field("FLOP", "Multiplications and additions."),
        "minimal_bytes": Field(
            "minimal bytes", "Each operand read once, the result written once."
        ),
        "uncached_bytes": Field(
            "bytes without L2", "Traffic if no two CTAs shared a read."
        ),
        "intensity_flops_per_byte": Field("FLOP/byte", "FLOP over minimal bytes."),
        "uncached_intensity_flops_per_byte": Field(
            "FLOP/byte without L2", "FLOP over bytes without L2."
        ),
    },
    "roofline": {
        "device": Field("device", "The card of the rates below."),
        "num_sms": Field("SMs", "Its streaming multiprocessors."),
        "peak_flops_per_s": Field("peak rate", "Its peak for the operands' dtype."),
        "peak_source": Field("", "Where the peak is from."),
        "hbm_bytes_per_s": Field("memory rate", "Its memory rate."),
        "hbm_source": Field("", "Where the memory rate is from."),
        "compute_us": Field("compute", "FLOP at the peak rate."),
        "memory_us": Field("memory", "Minimal bytes at the memory rate."),
        "bound": Field("", "`compute` or `memory`, whichever takes longer."),
        "roofline_us": Field("roofline", "The longer of the two."),
        "tiles_of_busiest_sm": Field(
            "tiles of the busiest SM", "Output tiles that it computes."
        ),
        "quantised_us": Field(
            "with wave quantisation", "The roofline if no SM takes over another's work."
        ),
    },
}
