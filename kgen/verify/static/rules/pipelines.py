"""KG5xx that no plan shows: pipelines and what they move."""

from kgen.verify.static.rules.base import declare

PIPELINES = "JAX, plgpu.emit_pipeline_warp_specialized"

declare(
    "KG503",
    title="A store to SMEM is committed before TMA reads it",
    reason="TMA reads SMEM through another proxy. Without commit_smem it may still see"
    " what was there before.",
    source="PTX ISA, fence.proxy.async; JAX, plgpu.commit_smem",
    bad="out_smem[...] = acc\nplgpu.copy_smem_to_gmem(out_smem, out_gmem)",
    good="out_smem[...] = acc\nplgpu.commit_smem()\n"
    "plgpu.copy_smem_to_gmem(out_smem, out_gmem)",
    simulated=True,
)

declare(
    "KG504",
    title="Inputs of a warp-specialised pipeline share one delay_release",
    reason="One barrier tells the memory warpgroup that a step's slots are free.",
    source=PIPELINES,
    bad="in_specs=[plgpu.BlockSpec(a_tile, a_index, delay_release=1),\n"
    "          plgpu.BlockSpec(b_tile, b_index, delay_release=0)]",
    good="in_specs=[plgpu.BlockSpec(a_tile, a_index, delay_release=1),\n"
    "          plgpu.BlockSpec(b_tile, b_index, delay_release=1)]",
)

declare(
    "KG505",
    title="The memory warpgroup is the last one",
    reason="The pipeline numbers the compute warpgroups from 0.",
    source=PIPELINES,
    bad="emit_pipeline_warp_specialized(..., num_compute_wgs=2, memory_thread_idx=0)",
    good="emit_pipeline_warp_specialized(..., num_compute_wgs=2, memory_thread_idx=2)",
)

declare(
    "KG506",
    title="Several compute warpgroups have no SMEM outputs",
    reason="The pipeline cannot tell when the parts of all of them are complete: store"
    " from each compute warpgroup instead.",
    source=PIPELINES,
    bad="emit_pipeline_warp_specialized(..., num_compute_wgs=2, out_specs=[block])",
    good="emit_pipeline_warp_specialized(..., num_compute_wgs=1, out_specs=[block])",
)

declare(
    "KG507",
    title="Every input of a warp-specialised pipeline depends on its grid",
    reason="What is the same in every step has no place in a ring of slots: copy it"
    " before the pipeline.",
    source=PIPELINES,
    bad="in_specs=[plgpu.BlockSpec(a_tile, lambda k: (0, 0))]",
    good="in_specs=[plgpu.BlockSpec(a_tile, lambda k: (0, k))]",
)

declare(
    "KG508",
    title="Only a warp-specialised pipeline shares loads in a cluster",
    reason="`plgpu.emit_pipeline` does not know when the other CTAs have released a"
    " slot.",
    source="JAX, plgpu.emit_pipeline",
    bad="plgpu.emit_pipeline(..., in_specs=[\n"
    '    plgpu.BlockSpec(a_tile, a_index, collective_axes=("cluster",))])',
    good="plgpu.emit_pipeline_warp_specialized(..., in_specs=[\n"
    '    plgpu.BlockSpec(a_tile, a_index, collective_axes=("cluster",))])',
)

declare(
    "KG509",
    title="A pipeline of pipelines has no delay and fills its slots evenly",
    reason="The next pipeline begins in the slot after the last one, and finds all of"
    " them released.",
    source=PIPELINES + ", pipeline_state",
    bad="emit_pipeline_warp_specialized(..., grid=(7,), max_concurrent_steps=4)\n"
    "# with pipeline_state",
    good="emit_pipeline_warp_specialized(..., grid=(8,), max_concurrent_steps=4)\n"
    "# with pipeline_state",
)

declare(
    "KG510",
    title="A pipeline of pipelines begins with START",
    reason="Only START prefetches: a CTA that is given STOP alone, since it has one tile,"
    " waits for ever. With one tile for every CTA, leave pipeline_state out.",
    source=PIPELINES + ", pipeline_state; a hang on the GPU",
    bad="emit_pipeline_warp_specialized(..., pipeline_state=PipelinePipeline.STOP)",
    good="emit_pipeline_warp_specialized(..., pipeline_state=PipelinePipeline.START)",
    simulated=True,
)
