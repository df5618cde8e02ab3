"""Figures of a matmul on a GPU: occupancy, waves, traffic and the roofline.

Pure functions. Counts are Python integers and exact at any size; only rates, ratios
and times are floats.
"""

import dataclasses

from kgen.arch import Arch
from kgen.plan.dtypes import ITEMSIZE


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmLimits:
    """What the CTAs of one SM share, beside the registers.

    Source: CUDA C++ Programming Guide, "Compute Capabilities"; NVIDIA Hopper Tuning
    Guide, "Occupancy" and "Unified Shared Memory/L1/Texture Cache".

    Attributes:
      threads: The most resident threads.
      ctas: The most resident CTAs.
      reserved_smem_bytes: SMEM that CUDA keeps for itself in every CTA. The SM has
        the one CTA's limit and this much more.
      register_unit: Registers per thread are rounded up to a multiple of this.
    """

    threads: int
    ctas: int
    reserved_smem_bytes: int
    register_unit: int


SM_LIMITS = {
    "sm_90a": SmLimits(threads=2048, ctas=32, reserved_smem_bytes=1024, register_unit=8)
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Occupancy:
    """How many CTAs fit on one SM, by what limits them.

    Attributes:
      by_smem: CTAs whose SMEM fits.
      by_registers: CTAs whose registers fit.
      by_threads: CTAs whose threads fit.
    """

    by_smem: int
    by_registers: int
    by_threads: int

    @property
    def ctas_per_sm(self) -> int:
        return min(self.by_smem, self.by_registers, self.by_threads)


def occupancy(
    arch: Arch, *, smem_bytes: int, registers_per_cta: int, threads: int
) -> Occupancy:
    """Returns the CTAs that one SM holds at once.

    Args:
      arch: The architecture.
      smem_bytes: SMEM of one CTA.
      registers_per_cta: 32-bit registers of all threads of one CTA.
      threads: Threads of one CTA.
    """
    limits = SM_LIMITS[arch.name]
    reserved = limits.reserved_smem_bytes
    return Occupancy(
        by_smem=min(
            limits.ctas, (arch.smem_bytes + reserved) // (smem_bytes + reserved)
        ),
        by_registers=min(limits.ctas, arch.registers_per_sm // registers_per_cta),
        by_threads=min(limits.ctas, limits.threads // threads),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Waves:
    """How a grid of equal CTAs fills the GPU.

    Attributes:
      ctas: CTAs of the grid.
      slots: CTAs that run at once.
      num_sms: SMs of the GPU.
    """

    ctas: int
    slots: int
    num_sms: int

    @property
    def waves(self) -> float:
        return self.ctas / self.slots

    @property
    def whole_waves(self) -> int:
        """Waves, the last one counted as a whole."""
        return _ceil_div(self.ctas, self.slots)

    @property
    def tail_efficiency(self) -> float:
        """CTAs over the slots of all whole waves; 1 when the last wave is full."""
        return self.ctas / (self.whole_waves * self.slots)

    @property
    def tiles_of_busiest_sm(self) -> int:
        """Tiles that the SM with the most work computes, one CTA being one tile."""
        return _ceil_div(self.ctas, self.num_sms)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What a matmul computes and moves.

    Attributes:
      flops: Multiplications and additions.
      minimal_bytes: Each operand read once, the result written once.
      uncached_bytes: GMEM traffic if no two CTAs shared a read: each CTA reads its
        rows of A and its columns of B.
    """

    flops: int
    minimal_bytes: int
    uncached_bytes: int

    def times(self, products: int) -> "Work":
        """Returns the work of so many products of this size."""
        return Work(
            flops=products * self.flops,
            minimal_bytes=products * self.minimal_bytes,
            uncached_bytes=products * self.uncached_bytes,
        )

    @property
    def intensity(self) -> float:
        """FLOP per byte of the minimal traffic."""
        return self.flops / self.minimal_bytes

    @property
    def uncached_intensity(self) -> float:
        """FLOP per byte if no two CTAs shared a read."""
        return self.flops / self.uncached_bytes


def matmul_work(
    shape: tuple[int, int, int],
    tile: tuple[int, int],
    *,
    operand_dtype: str,
    out_dtype: str,
    weights: int = 1,
) -> Work:
    """Returns the work of C[m, n] = A[m, k] @ B[k, n].

    Args:
      shape: (m, n, k).
      tile: Rows and columns of the output tile of one CTA.
      operand_dtype: Elements of A and B.
      out_dtype: Elements of C.
      weights: How many B there are, whose products become one C.
    """
    m, n, k = shape
    tile_m, tile_n = tile
    item = ITEMSIZE[operand_dtype]
    stored = m * n * ITEMSIZE[out_dtype]
    ctas = _ceil_div(m, tile_m) * _ceil_div(n, tile_n)
    return Work(
        flops=2 * m * n * k * weights,
        minimal_bytes=(m * k + k * n * weights) * item + stored,
        uncached_bytes=ctas * (tile_m + tile_n * weights) * k * item + stored,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roofline:
    """The least time that a GPU needs, in microseconds.

    Attributes:
      compute_us: All FLOPs at the peak rate.
      memory_us: The minimal bytes at the memory rate.
      quantised_compute_us: The busiest SM's FLOPs at its share of the peak rate.
    """

    compute_us: float
    memory_us: float
    quantised_compute_us: float

    @property
    def bound(self) -> str:
        """`compute` or `memory`, whichever takes longer."""
        return "compute" if self.compute_us >= self.memory_us else "memory"

    @property
    def roofline_us(self) -> float:
        return max(self.compute_us, self.memory_us)

    @property
    def quantised_us(self) -> float:
        """The roofline, if no SM takes work off another one."""
        return max(self.quantised_compute_us, self.memory_us)


def roofline(arch: Arch, work: Work, waves: Waves, operand_dtype: str) -> Roofline:
    """Returns the roofline of `work` on `arch.device`.

    CTAs that share an SM also share its tensor cores, so the quantised time depends on
    the tiles of the busiest SM and not on how many of them run at once.
    """
    peak = arch.flops_per_s[operand_dtype]
    compute_us = work.flops / peak * 1e6
    # tiles of the busiest SM, over the tiles of an SM if they were spread evenly
    imbalance = waves.tiles_of_busiest_sm * waves.num_sms / waves.ctas
    return Roofline(
        compute_us=compute_us,
        memory_us=work.minimal_bytes / arch.hbm_bytes_per_s * 1e6,
        quantised_compute_us=compute_us * imbalance,
    )


def round_up(value: int, unit: int) -> int:
    """Returns the least multiple of `unit` that is not below `value`."""
    return _ceil_div(value, unit) * unit


def _ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)
