"""KG4xx: SMEM, registers and threads of one CTA."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.budget import compute_registers
from kgen.plan.legality.base import Finding, rule
from kgen.plan.legality.smaller import smaller_tile
from kgen.registers import (
    MAX_MAXNREG,
    MAXNREG_STEP,
    MIN_MAXNREG,
    WARPGROUP_THREADS,
    launch_registers,
    wgmma_registers,
)
from kgen.rules import TRACE

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate


@rule(
    "KG401",
    title="A CTA's SMEM fits",
    reason="The ring, the output's slots and the barriers lie in SMEM together. Every "
    "ref is rounded up to 1,024 bytes.",
    source="CUDA C++ Programming Guide, compute capability 9.0: 227 KB per CTA",
    bad="[pipeline]\nmax_concurrent_steps = 16",
    good="[pipeline]\nmax_concurrent_steps = 4",
    also_on=(TRACE,),
    allowable=True,
)
def smem(candidate: "Candidate") -> Iterator[Finding]:
    needed = candidate.smem()
    if needed.total <= needed.limit:
        return
    stages = candidate.max_concurrent_steps
    fewest = candidate.delay_release + 1
    most = min(stages - 1, candidate.most_slots)
    fewer = (s for s in range(most, fewest - 1, -1) if _fits(candidate, s))
    fitting = next(fewer, None)
    usual = candidate.arch.swizzles[0] // candidate.itemsize
    key, hint = "pipeline.max_concurrent_steps", "make the tile smaller"
    if fitting is not None:
        hint = f"max_concurrent_steps = {fitting} fits"
        if candidate.gate_first > fitting:  # They would not fit in the ring.
            hint = f"max_concurrent_steps = {fitting} fits with gate_first = {fitting}"
    elif candidate.tile_k > usual:
        key, hint = "tile.k", f"make tile.k smaller, {usual} is usual"
    yield Finding(
        key,
        f"the CTA needs {needed.total:,} bytes of SMEM",
        f"at most {needed.limit:,} bytes",
        f"{hint}; `kgen rule KG401`",
    )


def _fits(candidate: "Candidate", stages: int) -> bool:
    smem = candidate.smem(stages=stages)
    return smem.total <= smem.limit


@rule(
    "KG402",
    title="The accumulator fits in registers",
    reason="A float32 accumulator of m x n takes m * n / 128 registers of each thread "
    "of a warpgroup. What does not fit is spilled to memory in the innermost loop, or "
    "not compiled at all.",
    source="CUDA C++ Programming Guide: 255 registers per thread, 65,536 per SM; the "
    "border was measured on one NVIDIA H200, see benchmarks/register_limits.py",
    bad="[tile]\nm = 256\nn = 128",
    good="[tile]\nm = 128\nn = 128",
    also_on=(TRACE,),
    allowable=True,
)
def accumulator_registers(candidate: "Candidate") -> Iterator[Finding]:
    registers = candidate.registers
    if registers.estimate > registers.compute_limit:
        yield Finding(
            "tile",
            f"{_sums(candidate)} of {candidate.wg_m} x {candidate.wg_n} takes "
            f"{registers.accumulator} registers per thread, about "
            f"{registers.estimate} with all else",
            f"at most {registers.compute_limit} registers",
            smaller_tile(candidate),
            ("tile.m", "tile.n"),
        )


def _sums(candidate: "Candidate") -> str:
    if candidate.activation:
        return "the accumulator, with that of the other weight,"
    return "the accumulator with its sum" if candidate.promote else "the accumulator"


@rule(
    "KG403",
    title="memory_registers is a multiple of 8 from 24 to 256",
    reason="setmaxnreg takes nothing else.",
    source="PTX ISA, setmaxnreg",
    bad="[schedule]\nwarp_specialized = true\nmemory_registers = 42",
    good="[schedule]\nwarp_specialized = true\nmemory_registers = 40",
    also_on=(TRACE,),
    allowable=True,
)
def memory_registers(candidate: "Candidate") -> Iterator[Finding]:
    count = candidate.memory_registers
    if count is None:
        return
    if count % MAXNREG_STEP or not MIN_MAXNREG <= count <= MAX_MAXNREG:
        yield Finding(
            "schedule.memory_registers",
            f"memory_registers = {count}",
            f"multiples of {MAXNREG_STEP} from {MIN_MAXNREG} to {MAX_MAXNREG}",
        )


@rule(
    "KG404",
    title="The memory warpgroup gives registers away",
    reason="setmaxnreg shrinks the memory warpgroup and grows the others; the sum over "
    "all threads stays within the 65,536 registers of an SM. The other direction would "
    "ask for more than the kernel was launched with.",
    source="PTX ISA, setmaxnreg",
    bad="[tile]\nm = 192\n[schedule]\nwarp_specialized = true\nnum_compute_wgs = 3\n"
    "memory_registers = 136",
    good="[tile]\nm = 192\n[schedule]\nwarp_specialized = true\nnum_compute_wgs = 3\n"
    "memory_registers = 40",
    also_on=(TRACE,),
    allowable=True,
)
def register_shares(candidate: "Candidate") -> Iterator[Finding]:
    count, wgs = candidate.memory_registers, candidate.num_compute_wgs
    if count is None:
        return
    share = compute_registers(candidate.arch, count, wgs)
    if share < count:
        even = candidate.arch.registers_per_sm // WARPGROUP_THREADS // (wgs + 1)
        yield Finding(
            "schedule.memory_registers",
            f"memory_registers = {count} leaves {share} for each of {wgs} compute "
            "warpgroups",
            f"at most {even // MAXNREG_STEP * MAXNREG_STEP}",
        )


@rule(
    "KG405",
    title="One wgmma fits in the registers that a CTA starts with",
    reason="ptxas compiles for the registers that the kernel is launched with, 128 with "
    "three compute warpgroups and 168 with two; setmaxnreg comes later. An instruction "
    "that does not fit is not compiled, which no check on a CPU would see.",
    source="ptxas, error C7602; measured on one NVIDIA H200, see "
    "benchmarks/register_limits.py",
    bad='[kernel]\nlayout = "nt"\n[tile]\nm = 192\nn = 208\n'
    "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 3",
    good='[kernel]\nlayout = "nt"\n[tile]\nm = 192\nn = 200\n'
    "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 3",
    also_on=(TRACE,),
    allowable=True,
)
def one_wgmma(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.memory_registers is None:
        return
    available = launch_registers(candidate.arch, candidate.num_compute_wgs + 1)
    needed = wgmma_registers(candidate.wgmma_columns)
    if needed > available:
        columns = candidate.wgmma_columns - 2 * (needed - available)
        axis = "m" if candidate.swap_operands else "n"
        parts = candidate.num_compute_wgs if candidate.split == axis else 1
        yield Finding(
            f"tile.{axis}",
            f"one wgmma of {candidate.wgmma_columns} columns takes {needed} registers "
            "per thread, more than the CTA starts with",
            f"at most {available} registers",
            f"tile.{axis} = {columns // 8 * 8 * parts} fits",
            (f"tile.{axis}",),
        )
