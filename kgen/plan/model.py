"""Plans as frozen values: what the templates place and `kgen explain` prints."""

import dataclasses
import math

from kgen.arch import ARCHS
from kgen.epilogue.steps import Step, saves
from kgen.gradients import units
from kgen.layouts import COLUMN

EXACT, ANY = "exact", "any"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Buffer:
    """One allocation in SMEM.

    Attributes:
      name: Name of the ref, as in the rendered module.
      shape: Shape of one slot.
      dtype: Elements, or "barrier".
      slots: Slots, clamped to the number of steps.
      bytes: Bytes taken, rounded up as Mosaic GPU does.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    slots: int
    bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmemMap:
    """The SMEM of one CTA, buffer by buffer.

    Attributes:
      buffers: In the order of allocation.
      limit: Bytes that a CTA may use.
    """

    buffers: tuple[Buffer, ...]
    limit: int

    @property
    def total(self) -> int:
        return sum(buffer.bytes for buffer in self.buffers)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Registers:
    """Registers per thread.

    Attributes:
      accumulator: Taken by the float32 accumulator of one warpgroup.
      other: kgen's estimate of everything else while the accumulator is live.
      compute_limit: The most that a thread of a compute warpgroup may use.
      memory_limit: The same for the memory warpgroup; None without one.
    """

    accumulator: int
    other: int
    compute_limit: int
    memory_limit: int | None

    @property
    def estimate(self) -> int:
        return self.accumulator + self.other


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """An SMEM layout: transforms of one operand.

    Attributes:
      swizzle: Bytes of the swizzle; None for plain rows.
      tiling: Tile of the TilingTransform; None for plain rows.
    """

    swizzle: int | None
    tiling: tuple[int, int] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Raster:
    """The order in which output tiles are walked.

    Attributes:
      order: Dimension along which a band is `width` tiles wide, `m` or `n`.
      width: Tiles across a band.
    """

    order: str
    width: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One size at which a module is verified.

    Attributes:
      m: Rows of the output.
      n: Columns of the output.
      k: Reduction length.
      smem_bytes: SMEM that the lowered kernel must report at this size.
      simulate: Whether it is small enough to be simulated on a CPU.
      num_sms: SMs that a persistent kernel is told of; None for its default.
      a_batch: Leading dimensions of A.
      b_batch: Leading dimensions of B.
      differentiate: Whether the gradients are verified, too.
      grad_a_smem_bytes: SMEM that the kernel of A's gradient must report; None without.
      grad_b_smem_bytes: The same of B's.
    """

    m: int
    n: int
    k: int
    smem_bytes: int
    simulate: bool
    num_sms: int | None = None
    a_batch: tuple[int, ...] = ()
    b_batch: tuple[int, ...] = ()
    differentiate: bool = False
    grad_a_smem_bytes: int | None = None
    grad_b_smem_bytes: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class StandaloneTest:
    """How deep the standalone test goes.

    Attributes:
      inputs: Kinds of inputs: `integers`, `normal`.
      exact: Whether the product of integers must be right bit for bit.
      rtol: Allowed relative error; None for the rounding of the output's dtype.
      atol: Error allowed beside that; None for a derived one.
      gpu_marker: A pytest marker for the tests that need a GPU, or None.
      gradients: Whether gradients are tested.
    """

    inputs: tuple[str, ...] = ("integers", "normal")
    exact: bool = True
    rtol: float | None = None
    atol: float | None = None
    gpu_marker: str | None = None
    gradients: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class MatmulPlan:
    """What kgen decided for `op = "matmul"` or `"glu"`.

    Attributes:
      name: Name of the module.
      doc: The user's text for the module's docstring; may be empty.
      spec_path: The spec file, as its project names it.
      spec_digest: Digest of what the spec says about the module.
      test_digest: Digest of all that it says, for the standalone test.
      arch: Target such as `sm_90a`.
      schedule: `pipelined`, `warp_specialized` or `pallas_call`.
      persistent: Whether a CTA works through several tiles of the output.
      ping_pong: Whether the compute warpgroups take turns, a whole tile each.
      split_k: Parts that K is split into.
      swap_operands: Whether rows of the output are columns of wgmma.
      cluster_m: CTAs of a cluster along m.
      cluster_n: CTAs of a cluster along n.
      raster: Order in which tiles are walked; None for rows of tiles.
      layout: `nn`, `nt`, `tn` or `tt`: see `kgen.layouts`.
      out_order: `row`, or `column` if the result is [n, m].
      operand_dtype: Elements of A.
      b_dtype: Elements of B; other than A's only if both are 8-bit floats.
      out_dtype: Elements of the result.
      edge: `exact`, or `any` if sizes need not be multiples of the tile.
      tile_m: Rows of the CTA's output tile.
      tile_n: Columns of the CTA's output tile.
      tile_k: Depth of one step.
      max_concurrent_steps: Slots of the ring, before they are clamped.
      delay_release: Steps after which a slot is released.
      wgmma_in_flight: wgmma operations in flight when a step ends.
      promote: Whether the sum of every step is added to a sum in registers.
      num_compute_wgs: Warpgroups that multiply.
      split: Dimension that they split, `m` or `n`.
      wg_m: Rows of one warpgroup's part of the tile.
      wg_n: Columns of the same.
      memory_registers: Registers per thread of the memory warpgroup; None without one.
      operand_layout: SMEM layout of A and B.
      out_layout: SMEM layout of the output.
      store_m: Rows that are stored at once.
      store_n: Columns that are stored at once.
      store_slots: SMEM slots of the output.
      smem: SMEM map for any long enough K.
      registers: Registers per thread.
      cases: Sizes at which the module is verified.
      gpu_shapes: Further sizes (m, n, k) for the standalone test on a GPU.
      test: How deep the standalone test goes.
      allow: Codes of the legality rules that it is allowed to break.
      epilogue: Steps between the accumulator and the output.
      scale_block: Elements of k, and rows of B, that share a scale; None without scales.
      activation: Of a gated linear unit: `silu` or `gelu`; else empty.
      gate_first: Last steps in which all products with its first weight come first.
      batched: Whether A and B may have leading dimensions.
      gpu_batch: Leading dimensions of both at the `gpu_shapes`.
      torch: Whether the module has a function for PyTorch's tensors.
      autodiff: Whether the function can be differentiated.
      may_differentiate: Whether the spec could ask for that.
    """

    name: str
    doc: str
    spec_path: str
    spec_digest: str
    test_digest: str
    arch: str
    schedule: str
    persistent: bool
    ping_pong: bool
    split_k: int
    swap_operands: bool
    cluster_m: int
    cluster_n: int
    raster: Raster | None
    layout: str
    out_order: str
    operand_dtype: str
    b_dtype: str
    out_dtype: str
    edge: str
    tile_m: int
    tile_n: int
    tile_k: int
    max_concurrent_steps: int
    delay_release: int
    wgmma_in_flight: int
    promote: bool
    num_compute_wgs: int
    split: str
    wg_m: int
    wg_n: int
    memory_registers: int | None
    operand_layout: Layout
    out_layout: Layout
    store_m: int
    store_n: int
    store_slots: int
    smem: SmemMap
    registers: Registers
    cases: tuple[Case, ...]
    gpu_shapes: tuple[tuple[int, int, int], ...]
    test: StandaloneTest = StandaloneTest()
    allow: tuple[str, ...] = ()
    epilogue: tuple[Step, ...] = ()
    scale_block: int | None = None
    activation: str = ""
    gate_first: int = 0
    batched: bool = False
    gpu_batch: tuple[int, ...] = ()
    torch: bool = False
    autodiff: bool = False
    may_differentiate: bool = False

    @property
    def op(self) -> str:
        return "glu" if self.activation else "matmul"

    @property
    def weights(self) -> int:
        """Matrices that A is multiplied with."""
        return 2 if self.activation else 1

    @property
    def promoted(self) -> int:
        """Products whose sum is promoted to registers; 0 for all."""
        return self.tile_k if self.promote else 0

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def owns_ring(self) -> bool:
        """Whether the kernel has a ring of its own, which holds steps of several tiles."""
        return self.ping_pong or self.gate_first > 0

    @property
    def turns_product(self) -> bool:
        """Whether what a warpgroup computes is turned around as it is stored."""
        return self.swap_operands != (self.out_order == COLUMN)

    @property
    def any_edge(self) -> bool:
        """Whether it takes every size."""
        return self.edge == ANY

    @property
    def units(self) -> tuple[int, int, int]:
        """What m, n and k must be multiples of."""
        return (1, 1, 1) if self.any_edge else self.blocks

    def steps(self, k: int) -> int:
        """Returns the steps of one CTA's pipeline over k."""
        return math.ceil(k / self.blocks[2])

    @property
    def units_to_differentiate(self) -> tuple[int, int, int]:
        """What m, n and k must be multiples of for the product and its gradients."""
        return (1, 1, 1) if self.any_edge else units(self.layout, self.blocks)

    @property
    def blocks(self) -> tuple[int, int, int]:
        """What a cluster computes at once, and the depth of a step of all parts of K."""
        return (
            self.tile_m * self.cluster_m,
            self.tile_n * self.cluster_n,
            self.tile_k * self.split_k,
        )

    @property
    def store_dtype(self) -> str:
        """Elements of what the kernel stores: partial sums stay float32."""
        return "float32" if self.split_k > 1 else self.out_dtype

    @property
    def stores(self) -> int:
        """Copies by which a warpgroup stores its part of a tile.

        Where the product is stored beside the output, as often as not, they are those of
        one of the two.
        """
        outputs = 1 + (saves(self.epilogue) and self.split_k == 1)
        return math.ceil(self.wg_m / self.store_m) * self.wg_n // self.store_n * outputs

    @property
    def differentiates_epilogue(self) -> bool:
        """Whether the kernel has an epilogue that it can also do without."""
        return self.autodiff and bool(self.epilogue)

    @property
    def num_warpgroups(self) -> int:
        """Warpgroups of one CTA, 128 threads each."""
        return self.num_compute_wgs + (self.memory_registers is not None)

    @property
    def max_m(self) -> int | None:
        """The most rows that the module takes; None if there is no limit.

        Without an order of its own, the tiles along m are a dimension of CUDA's grid.
        """
        if self.raster is not None:
            return None
        return ARCHS[self.arch].max_grid_yz * self.tile_m

    @property
    def max_matrices(self) -> int | None:
        """The most matrices of a batch; None if there is no limit."""
        if self.persistent or not self.batched:
            return None
        return ARCHS[self.arch].max_grid_yz

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Returns the CTAs along each dimension of an [m, n] output."""
        block_m, block_n, _ = self.blocks
        return (
            math.ceil(m / block_m) * self.cluster_m,
            math.ceil(n / block_n) * self.cluster_n,
        )
