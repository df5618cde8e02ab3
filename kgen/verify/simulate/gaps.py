"""What the simulator adds to JAX's GPU interpreter, what it refuses, what it does not see.

`docs/simulation.md` is written from here. Each gap names the kernels that show it, in
`tests/execution/kernels/interpreter_gaps.py`: `tests/execution/test_simulated_gaps.py`
shows that kgen closes it, `tests/contract/test_simulator_gaps.py` fails as soon as JAX
does so itself.
"""

import dataclasses

from kgen.verify.simulate.refusals import REFUSED

FIRST = "0.11.2"
"""The first version of JAX that kgen supports."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gap:
    """Something that JAX's interpreter does not do as a GPU does.

    Attributes:
      name: What it is about.
      jax: What JAX's own interpreter does.
      kgen: What the simulator does instead.
      probes: Names of the kernels that show it.
      since: First version of JAX that kgen knows it in.
      until: First version of JAX without it; empty while there is none.
    """

    name: str
    jax: str
    kgen: str
    probes: tuple[str, ...]
    since: str = FIRST
    until: str = ""

    @property
    def versions(self) -> str:
        """The versions of JAX that have the gap."""
        until = f", < {self.until}" if self.until else ""
        return f">= {self.since}{until}"


GAPS = (
    Gap(
        name="asynchronous `plgpu.wgmma`",
        jax="reads operands at once, in no race check; `wgmma_wait` does nothing",
        kgen="reads operands until it retires: at `wgmma_wait(n)` or a read of the "
        "accumulator, not at the next wgmma, which JAX's documentation says but what it "
        "lowers to does not; a slot written meanwhile, or read before its load has "
        "arrived, is a race",
        probes=("unloaded_operand", "overwritten_in_the_second_cta"),
    ),
    Gap(
        name="`plgpu.wgmma_accumulator_load`",
        jax="returns the sums whatever `wait_n` is",
        kgen="waits for all but `wait_n`; reading what a wgmma still adds to is a race",
        probes=("accumulator_read_early", "accumulator_read_unsynchronised"),
    ),
    Gap(
        name="store to an accumulator",
        jax="fails",
        kgen="writes it; while a wgmma adds to it, that is a race",
        probes=("accumulator_store",),
    ),
    Gap(
        name="`pl.run_state` with `plgpu.ACC.init`",
        jax="fails",
        kgen="starts from the value, waits for all wgmmas before it returns",
        probes=("run_state",),
    ),
    Gap(
        name="wgmma with A in registers",
        jax="fails",
        kgen="multiplies the value; only the reads of B are checked",
        probes=("a_in_registers", "overwritten_b"),
    ),
    Gap(
        name="`plgpu.ACC` beside SMEM in one scope",
        jax="fails",
        kgen="allocates both; the accumulator begins as zeros, as on a GPU",
        probes=("scratch_accumulator",),
    ),
    Gap(
        name="predicate of `plgpu.copy_smem_to_gmem`",
        jax="fails, and with it `emit_pipeline` with outputs that vary",
        kgen="copies or not; the group is committed either way",
        probes=("pipeline_with_outputs",),
    ),
    Gap(
        name="predicate of `plgpu.copy_gmem_to_smem`",
        jax="fails",
        kgen="copies or not; the barrier sees an arrival of a copy left out before "
        "JAX 0.12 only, as on a GPU",
        probes=("predicated_load",),
    ),
    Gap(
        name="groups of copies to GMEM",
        jax="takes every copy for a group; `commit_smem_to_gmem_group` does nothing",
        kgen="`wait_smem_to_gmem(n)` counts groups; copies in no group at the end of the "
        "kernel are an error",
        probes=("one_group_not_waited_for", "uncommitted"),
    ),
    Gap(
        name="TMA reductions (`reduction_op`)",
        jax="fails",
        kgen="computes all of them; they race with other accesses, not among themselves",
        probes=(
            "reduction_add",
            "reduction_max",
            "reduction_umax",
            "reduction_xor",
            "reduction_against_a_store",
        ),
    ),
    Gap(
        name="`plgpu.atomic_add` and its kin",
        jax="fails",
        kgen="computes all of them; they race with other accesses, not among themselves",
        probes=("atomics",),
    ),
    Gap(
        name="fill beyond the end (`OOBFillMode`)",
        jax="fills with zeros in every mode",
        kgen="`ZEROS` are zeros, `UNDEFINED` is NaN or the largest integer, and beyond "
        "`PROMISE_IN_BOUNDS` is an error",
        probes=("undefined_beyond_the_end", "broken_promise"),
    ),
    Gap(
        name="copies that begin beyond a dimension of a single tile",
        jax="fills with zeros, or drops what is stored",
        kgen="are an error: on a GPU JAX leaves such a dimension out of what it tells TMA, "
        "and with it the place, so that the copy reads or writes the only tile",
        probes=("beyond_the_only_tile",),
    ),
    Gap(
        name="multicast loads (`collective_axes`)",
        jax="every CTA copies for itself",
        kgen="every CTA loads a part for all, so that it writes its peers' slots: a slot "
        "that is free in one CTA only is a race; CTAs that copy different parts of GMEM "
        "are an error",
        probes=("multicast_into_a_slot_in_use", "multicast_of_two_tiles"),
    ),
    Gap(
        name="CTAs outside of a cluster",
        jax="run one after the other, with clocks set back in between",
        kgen="are ordered by nothing: what one writes to GMEM no other may access",
        probes=("two_ctas_write",),
    ),
    Gap(
        name="arrivals that nobody waits for",
        jax="are an error when the barrier ends",
        kgen="are allowed, as on a GPU",
        probes=("unseen_arrival",),
        until="0.12.0",
    ),
    Gap(
        name="`jax.jit` and `pl.delay` within a kernel",
        jax="fail",
        kgen="interprets the body; a delay takes no time",
        probes=("jit_within",),
    ),
    Gap(
        name="`plgpu.sum`, `max`, `min`, `prod`",
        jax="fail",
        kgen="computes them",
        probes=("sums",),
        since="0.12.0",
    ),
    Gap(
        name="`pl.program_id`",
        jax="is 0 in every CTA",
        kgen="refuses it; `jax.lax.axis_index` is right",
        probes=("program_id",),
    ),
)

REFUSALS = (
    *REFUSED.values(),
    "semaphores",
    "refs of other CTAs and devices (plgpu.remote_ref, multicast_ref, cluster_ref)",
    "copies with leader_tracked, from plgpu.im2col_ref, or without a barrier",
    "gathers and scatters by TMA",
    "collective copies that cannot be dealt out along one axis",
    "a transposed target of plgpu.copy_smem_to_gmem",
    "more than 32 warpgroups in a cluster",
)
"""What is `not simulated`; so is whatever JAX's own interpreter says it lacks."""

UNSEEN = (
    "Writes of a kernel into its own operands in GMEM, unless they race; and a TMA load "
    "of GMEM that the same kernel has stored to without a proxy fence.",
    "Integers are not NaN before they are written, but the largest of their dtype: "
    "without a reference nobody notices. A NaN in SMEM that was never written is lost "
    "where it is only compared.",
    "A ring that never goes around at the given sizes shows no fault of its slots: let "
    "the steps be more than the slots.",
    "float32 operands are multiplied in full precision, not as tf32; sums are rounded "
    "as numpy rounds them, not in the tensor core's order. Those of 8-bit floats have "
    "24 bits, where Hopper's tensor cores keep about 13 on the way.",
    "SMEM that one `pl.run_scoped` gives back and the next one gets at the same place: "
    "every allocation is new, so that copies still in flight between the two are no "
    "race.",
    "A CTA that ends while its neighbour in the cluster still arrives at one of its "
    "barriers: memory outlives the CTA in the interpreter.",
    "Copies that lie wholly outside of an array move nothing, as on the GPU: such wasted "
    "work is not told.",
    "Copies of one thread whose numbers differ by a multiple of 61 are taken for "
    "ordered.",
    "`try_cluster_cancel` never gets work: a dynamic scheduler runs, but its steals do "
    "not.",
    "Registers, layouts in registers, bank conflicts, `set_max_registers` and "
    "`async_prefetch` have no effect on what is computed.",
    "tcgen05 and TMEM, which Hopper lacks, are as JAX interprets them.",
)
"""What a passed simulation does not prove, a sentence each."""
