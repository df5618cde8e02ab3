"""Budgets of one CTA: SMEM and registers."""

import math

from kgen.arch import Arch
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import Buffer, Registers
from kgen.registers import OTHER_REGISTERS, WARPGROUP_THREADS


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


def registers(
    arch: Arch,
    wg_m: int,
    wg_n: int,
    memory_registers: int | None,
    num_compute_wgs: int,
    *,
    sums: int = 1,
) -> Registers:
    """Returns the register estimate of a matmul; [wg_m, wg_n] is a warpgroup's tile.

    Args:
      arch: The architecture.
      wg_m: Rows of a warpgroup's tile.
      wg_n: Columns of the same.
      memory_registers: Registers per thread of the memory warpgroup; None without one.
      num_compute_wgs: Warpgroups that multiply.
      sums: Sums of that size: 2 where that of a step is added to another one.
    """
    limit = arch.max_registers_per_thread
    if memory_registers is not None:
        share = compute_registers(arch, memory_registers, num_compute_wgs)
        limit = min(limit, share)
    return Registers(
        accumulator=sums * wg_m * wg_n // WARPGROUP_THREADS,
        other=OTHER_REGISTERS,
        compute_limit=limit,
        memory_limit=memory_registers,
    )
