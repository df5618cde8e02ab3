"""KG5xx: pipelines over K."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.legality.base import Finding, rule
from kgen.rules import SIMULATE, TRACE

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

PTX_WGMMA = "PTX ISA, wgmma.mma_async: operands are read asynchronously"


@rule(
    "KG501",
    title="max_concurrent_steps is greater than delay_release",
    reason="A slot that is released that late is never free for the next load: the "
    "pipeline would wait for itself.",
    source="JAX, plgpu.emit_pipeline; a hang on the GPU",
    bad="[pipeline]\nmax_concurrent_steps = 2\ndelay_release = 2",
    good="[pipeline]\nmax_concurrent_steps = 3\ndelay_release = 2",
    also_on=(TRACE, SIMULATE),
    allowable=True,
)
def stages(candidate: "Candidate") -> Iterator[Finding]:
    pipeline = candidate.spec.pipeline
    if candidate.max_concurrent_steps <= pipeline.delay_release:
        yield Finding(
            "pipeline.max_concurrent_steps",
            f"max_concurrent_steps = {candidate.max_concurrent_steps} with "
            f"delay_release = {pipeline.delay_release}",
            f"at least {pipeline.delay_release + 1}",
        )


@rule(
    "KG502",
    title="delay_release is at least wgmma_in_flight",
    reason="A wgmma that is still in flight reads its slot. Released too early, the "
    "slot is loaded anew under it, and the product is wrong without any error.",
    source=PTX_WGMMA,
    bad="[pipeline]\ndelay_release = 0\nwgmma_in_flight = 1",
    good="[pipeline]\ndelay_release = 1\nwgmma_in_flight = 1",
    also_on=(SIMULATE,),
    allowable=True,
)
def delay(candidate: "Candidate") -> Iterator[Finding]:
    pipeline = candidate.spec.pipeline
    if pipeline.delay_release < pipeline.wgmma_in_flight:
        yield Finding(
            "pipeline.delay_release",
            f"delay_release = {pipeline.delay_release} with "
            f"wgmma_in_flight = {pipeline.wgmma_in_flight}",
            f"at least {pipeline.wgmma_in_flight}",
            "a wgmma in flight still reads its slot; see `kgen rule KG502`",
        )
