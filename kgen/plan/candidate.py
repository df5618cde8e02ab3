"""A matmul whose numbers are resolved but not judged yet."""

import dataclasses

from kgen.arch import Arch
from kgen.epilogue.steps import Step, saves
from kgen.gradients import units
from kgen.layouts import is_transposed, operand_shapes, out_shape
from kgen.plan import budget
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import ANY, Buffer, Layout, Raster, Registers, SmemMap
from kgen.spec.glu import GluKernel, GluPipeline
from kgen.spec.model import Spec
from kgen.spec.source import SourcedSpec

GROUP_BARRIERS = 32
"""Barriers of one group, at most: JAX keeps a bit of an int32 for each."""

NO_SPLIT = "none"
"""The compute warpgroups split no dimension of a tile: each has tiles of its own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A matmul with every number resolved, not yet known to be legal.

    The attributes are those of `MatmulPlan`. Layouts are as the spec asks for them, A's
    and B's apart, and sizes may not divide one another.
    """

    source: SourcedSpec
    arch: Arch
    schedule: str
    layout: str
    out_order: str
    tile_k: int
    raster: Raster | None
    max_concurrent_steps: int
    delay_release: int
    wgmma_in_flight: int
    num_compute_wgs: int
    split: str
    memory_registers: int | None
    a_layout: Layout
    b_layout: Layout
    out_dtype: str
    out_layout: Layout
    store_m: int
    store_n: int
    store_slots: int
    epilogue: tuple[Step, ...] = ()

    @property
    def spec(self) -> Spec:
        assert isinstance(self.source.spec, Spec), "the spec of a matmul"
        return self.source.spec

    @property
    def itemsize(self) -> int:
        """Bytes of one element of A or B."""
        return ITEMSIZE[self.spec.dtypes.a]

    @property
    def out_itemsize(self) -> int:
        """Bytes of one element of what the kernel stores."""
        return ITEMSIZE[self.store_dtype]

    @property
    def wg_m(self) -> int:
        """Rows of one warpgroup's part of the tile."""
        return share(self.spec.tile.m, self.num_compute_wgs, self.split == "m")

    @property
    def wg_n(self) -> int:
        """Columns of one warpgroup's part of the tile."""
        return share(self.spec.tile.n, self.num_compute_wgs, self.split == "n")

    @property
    def ping_pong(self) -> bool:
        """Whether the compute warpgroups take turns, a whole tile each."""
        return self.spec.schedule.ping_pong

    @property
    def gate_first(self) -> int:
        """Last steps in which all products with the first weight come first."""
        pipeline = self.spec.pipeline
        return pipeline.gate_first if isinstance(pipeline, GluPipeline) else 0

    @property
    def owns_ring(self) -> bool:
        """Whether the kernel has a ring of its own, which holds steps of several tiles."""
        return self.ping_pong or self.gate_first > 0

    @property
    def turns(self) -> int:
        """Warpgroups that wait for loads of their own."""
        return self.num_compute_wgs if self.ping_pong else 1

    @property
    def most_slots(self) -> int:
        """Slots of the ring that a group of barriers can tell of."""
        return GROUP_BARRIERS // self.turns

    @property
    def split_k(self) -> int:
        """Parts that K is split into."""
        return self.spec.schedule.split_k or 1

    @property
    def promote(self) -> bool:
        """Whether the sum of every step is added to a sum in registers."""
        asked = self.spec.pipeline.promote or self.spec.scales.block is not None
        return asked and self.schedule == "warp_specialized" and not self.ping_pong

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.spec.cluster.m * self.spec.cluster.n

    @property
    def swap_operands(self) -> bool:
        """Whether rows of the output are columns of wgmma."""
        return self.spec.schedule.swap_operands

    @property
    def wgmma_rows(self) -> int:
        """Rows of the accumulator of one warpgroup."""
        return self.wg_n if self.swap_operands else self.wg_m

    @property
    def wgmma_columns(self) -> int:
        """Columns of the accumulator of one warpgroup, which are N of wgmma."""
        return self.wg_m if self.swap_operands else self.wg_n

    @property
    def columns_are_k_major(self) -> bool:
        """Whether wgmma's columns, of B or of a swapped A, lie in rows of k."""
        a_is_transposed, b_is_transposed = is_transposed(self.layout)
        return not a_is_transposed if self.swap_operands else b_is_transposed

    @property
    def batched(self) -> bool:
        """Whether A and B may have leading dimensions."""
        return self.spec.shapes.batch

    @property
    def torch(self) -> bool:
        """Whether the module has a function for PyTorch's tensors."""
        return self.spec.module.torch

    @property
    def any_edge(self) -> bool:
        """Whether it takes every size."""
        return self.spec.shapes.edge == ANY

    @property
    def units(self) -> tuple[int, int, int]:
        """What m, n and k must be multiples of."""
        return (1, 1, 1) if self.any_edge else self.blocks

    @property
    def autodiff(self) -> bool:
        """Whether the function can be differentiated."""
        return self.spec.kernel.autodiff

    @property
    def differentiates_epilogue(self) -> bool:
        """Whether the kernel has an epilogue that it can also do without."""
        return self.autodiff and bool(self.epilogue)

    @property
    def units_to_differentiate(self) -> tuple[int, int, int]:
        """What m, n and k must be multiples of for the product and its gradients."""
        return (1, 1, 1) if self.any_edge else units(self.layout, self.blocks)

    @property
    def blocks(self) -> tuple[int, int, int]:
        """What a cluster computes at once, and the depth of a step of all parts of K."""
        tile, cluster = self.spec.tile, self.spec.cluster
        return tile.m * cluster.m, tile.n * cluster.n, self.tile_k * self.split_k

    @property
    def store_dtype(self) -> str:
        """Elements of what the kernel stores: partial sums stay float32."""
        return "float32" if self.split_k > 1 else self.out_dtype

    @property
    def activation(self) -> str:
        """Of a gated linear unit: `silu` or `gelu`; else empty."""
        kernel = self.spec.kernel
        return kernel.activation if isinstance(kernel, GluKernel) else ""

    @property
    def weights(self) -> int:
        """Matrices that A is multiplied with."""
        return 2 if self.activation else 1

    @property
    def outputs(self) -> int:
        """Arrays that the kernel stores, at most."""
        # To differentiate an epilogue takes the product, too.
        second = saves(self.epilogue) or self.differentiates_epilogue
        return 1 + (second and self.split_k == 1)

    @property
    def a_tile(self) -> tuple[int, int]:
        """Shape of A's tile as it lies in memory."""
        return self._tiles[0]

    @property
    def b_tile(self) -> tuple[int, int]:
        """Shape of B's tile as it lies in memory."""
        return self._tiles[1]

    @property
    def _tiles(self) -> tuple[tuple[int, int], tuple[int, int]]:
        tile = self.spec.tile
        return operand_shapes(self.layout, tile.m, tile.n, self.tile_k)

    @property
    def out_piece(self) -> tuple[int, int]:
        """Shape of what a warpgroup stores at once, as it lies in memory."""
        return out_shape(self.out_order, self.store_m, self.store_n)

    @property
    def registers(self) -> Registers:
        return budget.registers(
            self.arch,
            self.wg_m,
            self.wg_n,
            self.memory_registers,
            self.num_compute_wgs,
            sums=self.weights + self.promote,
        )

    def smem(self, num_steps: int | None = None, stages: int | None = None) -> SmemMap:
        """Returns the SMEM map for `num_steps` of K; None stands for many.

        Args:
          num_steps: Steps of the pipeline; its ring never has more slots than steps.
          stages: Slots of the ring instead of the spec's.
        """
        stages = stages or self.max_concurrent_steps
        slots = stages
        if num_steps is not None and not self.owns_ring:
            slots = min(stages, num_steps)
        buffers = (*self._ring(slots), *self._out_buffers(slots))
        return SmemMap(buffers=buffers, limit=self.arch.smem_bytes)

    def _ring(self, slots: int) -> tuple[Buffer, ...]:
        dtypes = self.spec.dtypes
        a, weights = "a_smem", ["b_smem"]
        if self.activation:
            a, weights = "x_smem", ["gate_smem", "up_smem"]
        refs = (
            budget.smem_buffer(self.arch, a, self.a_tile, dtypes.a, slots),
            *(
                budget.smem_buffer(self.arch, name, self.b_tile, dtypes.b, slots)
                for name in weights
            ),
        )
        if self.schedule != "warp_specialized":
            return (*refs, budget.barriers(self.arch, "barriers: loaded", slots))
        return (
            *refs,
            budget.barriers(self.arch, "barriers: loaded", slots * self.turns),
            budget.barriers(self.arch, "barriers: released", slots),
            *(
                [budget.barriers(self.arch, "barriers: turns", self.turns)]
                if self.ping_pong
                else []
            ),
        )

    def _out_buffers(self, slots: int) -> tuple[Buffer, ...]:
        # Every slot of a pallas_call's ring has a block of the output as well.
        out_slots = {
            "pipelined": self.store_slots,
            "warp_specialized": self.num_compute_wgs * self.store_slots,
            "pallas_call": slots,
        }[self.schedule]
        return (
            budget.smem_buffer(
                self.arch, "out_smem", self.out_piece, self.store_dtype, out_slots
            ),
        )


def share(size: int, parts: int, is_split: bool) -> int:
    """Returns a warpgroup's part of a size; never nothing, so that rules may divide by it."""
    return max(size // parts, 1) if is_split else size
