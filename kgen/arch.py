"""Frozen limits of each GPU architecture."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arch:
    """What one architecture can do.

    Source: CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "wgmma".

    Attributes:
      name: Target as ptxas names it.
      title: The architecture's name in prose.
      compute_capability: As `jax.Device.compute_capability` tells it.
      device: The card that `kgen explain` takes its rates from.
      num_sms: Streaming multiprocessors of that card.
      smem_bytes: SMEM that one CTA may use, in bytes.
      smem_alignment: Bytes to which Mosaic GPU rounds every SMEM ref.
      barrier_bytes: Bytes of SMEM that one mbarrier takes.
      registers_per_sm: 32-bit registers of one SM.
      max_registers_per_thread: The most that one thread can address.
      max_threads: Threads of one CTA.
      max_grid_yz: The most CTAs along the grid's second and third dimension.
      tma_box: The most elements of a TMA box along one dimension.
      swizzles: SMEM swizzles in bytes, widest first.
      hbm_bytes_per_s: Memory rate of `device`, measured with a large copy.
      flops_per_s: Peak rate of `device` by operand dtype, dense, from its data sheet.
    """

    name: str
    title: str
    compute_capability: str
    device: str
    num_sms: int
    smem_bytes: int
    smem_alignment: int
    barrier_bytes: int
    registers_per_sm: int
    max_registers_per_thread: int
    max_threads: int
    max_grid_yz: int
    tma_box: int
    swizzles: tuple[int, ...]
    hbm_bytes_per_s: float
    flops_per_s: dict[str, float]


SM_90A = Arch(
    name="sm_90a",
    title="NVIDIA Hopper",
    compute_capability="9.0",
    device="NVIDIA H200",
    num_sms=132,
    smem_bytes=232_448,
    smem_alignment=1024,
    barrier_bytes=8,
    registers_per_sm=65_536,
    max_registers_per_thread=255,
    max_threads=1024,
    max_grid_yz=65_535,
    tma_box=256,
    swizzles=(128, 64, 32),
    hbm_bytes_per_s=4.3e12,
    flops_per_s={
        "float16": 989e12,
        "bfloat16": 989e12,
        "float32": 494e12,
        "float8_e4m3fn": 1979e12,
        "float8_e5m2": 1979e12,
    },
)

ARCHS = {SM_90A.name: SM_90A}
