"""What a traced kernel says about itself, as frozen values.

Shapes are logical: those that the kernel's author wrote, before an SMEM transform.
"""

import dataclasses

from kgen.arch import Arch
from kgen.verify.static.values import Value

SMEM, ACCUMULATOR, TMEM, BARRIER = "smem", "accumulator", "tmem", "barrier"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where something is written.

    Attributes:
      line: Line of the module; None if it is written elsewhere.
      text: The place and the line's text, for people.
    """

    line: int | None
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """The SMEM layout of a ref, as far as the kernel says it.

    Attributes:
      swizzle: Bytes of its swizzle; None without one.
      tiling: Its tiling; None without one.
    """

    swizzle: int | None
    tiling: tuple[int, ...] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Allocation:
    """Memory that a kernel or a scope in it allocates.

    Attributes:
      place: The call that allocates it.
      space: `smem`, `accumulator`, `tmem` or `barrier`.
      shape: Logical shape, or the number of barriers along each dimension.
      dtype: Elements; empty for barriers.
      bits: Bits of one element; 0 for barriers.
      layout: SMEM layout.
      layout_fault: Why it cannot have that layout; empty if it can. JAX asserts it
        without a message.
      collective_axes: Cluster axes that share barriers.
      columns: TMEM columns.
      registers: Registers per thread of this accumulator and those around it.
      threads: Threads (warpgroups) that come here.
    """

    place: Place
    space: str
    shape: tuple[int, ...]
    dtype: str = ""
    bits: int = 0
    layout: Layout = Layout(swizzle=None, tiling=None)
    layout_fault: str = ""
    collective_axes: tuple[str, ...] = ()
    columns: int = 0
    registers: int = 0
    threads: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operand:
    """One operand of a product.

    Attributes:
      shape: Logical shape; None if it could not be followed.
      dtype: Elements.
      itemsize: Bytes of one element.
      space: `smem`, `tmem` or `registers`.
      layout: SMEM layout.
      k_major: Whether K is contiguous in SMEM; None if that is not known.
    """

    shape: tuple[int, ...] | None
    dtype: str
    itemsize: int
    space: str
    layout: Layout
    k_major: bool | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """One wgmma or tcgen05 operation.

    Attributes:
      place: Where it is.
      m: Rows of the accumulator.
      n: Columns of the accumulator.
      a: Left operand, [m, k].
      b: Right operand, [k, n].
      accumulator: Elements of the accumulator.
      collective: Whether two CTAs work together (tcgen05).
      threads: Threads that issue it.
    """

    place: Place
    m: int
    n: int
    a: Operand
    b: Operand
    accumulator: str
    collective: bool
    threads: frozenset[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Copy:
    """One TMA copy between GMEM and SMEM.

    Attributes:
      place: Where it is.
      to_smem: Whether it loads; otherwise it stores.
      gmem_shape: Shape of the whole array in GMEM.
      dtype: Elements.
      bits: Bits of one element.
      box: Elements copied along each dimension of the array; 1 where an index is.
      squeezed: The dimensions where an index is.
      steps: Every how many elements are copied along each dimension.
      offsets: Where the copy begins along each dimension.
      layout: Layout of the SMEM side.
      inferred: Whether Mosaic GPU may still choose a layout for the SMEM side.
      collective_axes: Cluster axes that share a load.
      orders_tensor_core: Whether the barrier of a load orders the tensor core.
      guards: Axes that decide whether the copy is made at all; None for anything.
    """

    place: Place
    to_smem: bool
    gmem_shape: tuple[int, ...]
    dtype: str
    bits: int
    box: tuple[int, ...]
    squeezed: tuple[bool, ...]
    steps: tuple[int, ...]
    offsets: tuple[Value, ...]
    layout: Layout
    inferred: bool
    collective_axes: tuple[str, ...]
    orders_tensor_core: bool
    guards: frozenset[str] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxRegisters:
    """One setmaxnreg.

    Attributes:
      place: Where it is.
      count: Registers per thread.
      increase: Whether it takes registers; otherwise it gives some away.
      threads: Threads (warpgroups) that do it.
    """

    place: Place
    count: int
    increase: bool
    threads: frozenset[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Power:
    """One integer power.

    Attributes:
      place: Where it is.
      exponent: The exponent.
    """

    place: Place
    exponent: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernel:
    """One `plgpu.kernel`.

    Attributes:
      place: Its call.
      arch: Limits of the GPU that it is for.
      lane_semantics: Whether it is lowered lane by lane and not by warpgroup.
      grid: CTAs, or clusters, along each dimension.
      grid_names: Names of the grid's axes.
      cluster: CTAs of a cluster along each dimension.
      cluster_names: Names of the cluster's axes.
      num_threads: Warpgroups of a CTA.
      smem_bytes: Dynamic SMEM that it asks for, barriers included.
      tmem_columns: TMEM columns that it asks for.
      allocations: Its memory.
      wgmmas: Its products on Hopper.
      mmas: Its products on Blackwell.
      copies: Its TMA copies.
      registers: Its setmaxnreg.
      powers: Its integer powers.
      reversed_loops: Places of loops that run backwards.
      gmem: Shape of every array in GMEM.
    """

    place: Place
    arch: Arch
    lane_semantics: bool
    grid: tuple[int, ...]
    grid_names: tuple[str, ...]
    cluster: tuple[int, ...]
    cluster_names: tuple[str, ...]
    num_threads: int
    smem_bytes: int
    tmem_columns: int
    allocations: tuple[Allocation, ...]
    wgmmas: tuple[Product, ...]
    mmas: tuple[Product, ...]
    copies: tuple[Copy, ...]
    registers: tuple[MaxRegisters, ...]
    powers: tuple[Power, ...]
    reversed_loops: tuple[Place, ...]
    gmem: tuple[tuple[int, ...], ...]

    def axis_sizes(self) -> dict[str, int]:
        """Returns the size of every grid and cluster axis."""
        names = (*self.grid_names, *self.cluster_names)
        return dict(zip(names, (*self.grid, *self.cluster), strict=True))
