"""How registers are shared out among the threads of a CTA."""

from kgen.arch import Arch

WARPGROUP_THREADS = 128
REGISTER_BITS = 32
# Addresses, loop counters and barriers beside the accumulator, per thread: as many as
# separate the accumulators that ptxas spilled on one H200 from those that it did not;
# see benchmarks/register_limits.py.
OTHER_REGISTERS = 28
# The same beside the accumulator of one wgmma instruction, as ptxas counts.
OTHER_REGISTERS_OF_WGMMA = 26
MIN_MAXNREG, MAX_MAXNREG, MAXNREG_STEP = 24, 256, 8
"""What setmaxnreg takes."""


def launch_registers(arch: Arch, warpgroups: int) -> int:
    """Returns the registers per thread that a CTA of so many warpgroups starts with."""
    share = arch.registers_per_sm // (warpgroups * WARPGROUP_THREADS) // 8 * 8
    return min(share, arch.max_registers_per_thread)


def wgmma_registers(columns: int) -> int:
    """Returns the registers per thread of one 64 x `columns` wgmma, all included."""
    return 64 * columns // WARPGROUP_THREADS + OTHER_REGISTERS_OF_WGMMA
