"""Budgets of one CTA: SMEM and registers."""

import math

from kgen.arch import Arch
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import Buffer, Registers

WARPGROUP_THREADS = 128
# Addresses, loop counters and barriers beside the accumulator, per thread: as many as
# separate the accumulators that ptxas spilled on one H200 from those that it did not;
# see benchmarks/register_limits.py.
OTHER_REGISTERS = 28
# The same beside the accumulator of one wgmma instruction, as ptxas counts.
OTHER_REGISTERS_OF_WGMMA = 26


def smem_buffer(
    arch: Arch, name: str, shape: tuple[int, ...], dtype: str, slots: int
) -> Buffer:
    """Returns a ref of `slots` times `shape`, rounded up as Mosaic GPU rounds it."""
    size = slots * math.prod(shape) * ITEMSIZE[dtype]
    rounded = -(-size // arch.smem_alignment) * arch.smem_alignment
    return Buffer(name=name, shape=shape, dtype=dtype, slots=slots, bytes=rounded)


def barriers(arch: Arch, name: str, count: int) -> Buffer:
    """Returns `count` mbarriers."""
    return Buffer(
        name=name,
        shape=(),
        dtype="barrier",
        slots=count,
        bytes=count * arch.barrier_bytes,
    )


def compute_registers(arch: Arch, memory_registers: int, num_compute_wgs: int) -> int:
    """Returns the registers per thread that each compute warpgroup asks for.

    As `plgpu.emit_pipeline_warp_specialized` shares them out: what the memory warpgroup
    leaves, in equal parts, at most 256, rounded down to a multiple of 8.
    """
    per_thread = arch.registers_per_sm // WARPGROUP_THREADS
    share = min(256, (per_thread - memory_registers) // num_compute_wgs)
    return max(share // 8 * 8, 0)


def launch_registers(arch: Arch, num_compute_wgs: int) -> int:
    """Returns the registers per thread that a warp-specialised CTA starts with."""
    threads = (num_compute_wgs + 1) * WARPGROUP_THREADS
    share = arch.registers_per_sm // threads // 8 * 8
    return min(share, arch.max_registers_per_thread)


def wgmma_registers(wg_n: int) -> int:
    """Returns the registers per thread of one 64 x `wg_n` wgmma, all included."""
    return 64 * wg_n // WARPGROUP_THREADS + OTHER_REGISTERS_OF_WGMMA


def registers(
    arch: Arch, wg_m: int, wg_n: int, memory_registers: int | None, num_compute_wgs: int
) -> Registers:
    """Returns the register estimate of a matmul; [wg_m, wg_n] is a warpgroup's tile."""
    limit = arch.max_registers_per_thread
    if memory_registers is not None:
        share = compute_registers(arch, memory_registers, num_compute_wgs)
        limit = min(limit, share)
    return Registers(
        accumulator=wg_m * wg_n // WARPGROUP_THREADS,
        other=OTHER_REGISTERS,
        compute_limit=limit,
        memory_limit=memory_registers,
    )
