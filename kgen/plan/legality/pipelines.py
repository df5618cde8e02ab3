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
    if candidate.max_concurrent_steps <= candidate.delay_release:
        yield Finding(
            "pipeline.max_concurrent_steps",
            f"max_concurrent_steps = {candidate.max_concurrent_steps} with "
            f"delay_release = {candidate.delay_release}",
            f"at least {candidate.delay_release + 1}",
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
    if candidate.delay_release < candidate.wgmma_in_flight:
        yield Finding(
            "pipeline.delay_release",
            f"delay_release = {candidate.delay_release} with "
            f"wgmma_in_flight = {candidate.wgmma_in_flight}",
            f"at least {candidate.wgmma_in_flight}",
            "a wgmma in flight still reads its slot; see `kgen rule KG502`",
        )


@rule(
    "KG511",
    title="A persistent kernel releases slots at once",
    reason="Its ring outlives a tile: whatever is still in flight when a pipeline ends "
    "would be released by nobody, and the next tile would wait for it.",
    source="JAX, plgpu.emit_pipeline_warp_specialized with pipeline_state",
    bad="[schedule]\nwarp_specialized = true\npersistent = true\n"
    "[pipeline]\ndelay_release = 1",
    good="[schedule]\nwarp_specialized = true\npersistent = true\n"
    "[pipeline]\ndelay_release = 0\nwgmma_in_flight = 0",
)
def released_at_once(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.ping_pong:
        return  # See KG626: it releases its slots itself.
    if candidate.spec.schedule.persistent and candidate.delay_release:
        yield Finding(
            "pipeline.delay_release",
            f"delay_release = {candidate.delay_release} with persistent = true",
            "0",
            "leave delay_release and wgmma_in_flight out; see `kgen rule KG511`",
        )


@rule(
    "KG512",
    title="A group has 32 barriers at most",
    reason="A barrier tells when a slot is loaded; in a ping-pong kernel every slot has "
    "one for each of the two warpgroups. JAX keeps the phases of a group's barriers in "
    "one int32, and lowers no larger group.",
    source="JAX, mosaic/gpu/utils.py, BarrierRef: Only up to 32 barriers per group "
    "supported",
    bad='[kernel]\nlayout = "nt"\n[tile]\nm = 64\nn = 8\nk = 32\n'
    "[pipeline]\nmax_concurrent_steps = 33",
    good='[kernel]\nlayout = "nt"\n[tile]\nm = 64\nn = 8\nk = 32\n'
    "[pipeline]\nmax_concurrent_steps = 32",
)
def barriers(candidate: "Candidate") -> Iterator[Finding]:
    slots, most = candidate.max_concurrent_steps, candidate.most_slots
    if slots <= most:
        return
    key, found, allowed = "max_concurrent_steps", slots, most
    if candidate.spec.pipeline.max_concurrent_steps is None:
        # As few slots as what is released late, or in flight, leaves.
        keys = ("delay_release", "wgmma_in_flight")
        key = max(keys, key=lambda each: getattr(candidate, each))
        found, allowed = getattr(candidate, key), most - 1
    because = " with ping_pong = true" if candidate.ping_pong else ""
    yield Finding(
        f"pipeline.{key}",
        f"{key} = {found}{because}",
        f"at most {allowed}",
        "a larger tile.k holds as much in fewer slots; see `kgen rule KG512`",
    )
