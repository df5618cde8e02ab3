"""The spec as one frozen tree.

This is the only place where a field, its default or its description is written: the
JSON Schema, the reference in the docs and the messages are derived from it. Types are
strict (`true` is no integer, `128.0` neither) and unknown keys are refused. What a
combination of values means is decided by the legality rules, not here.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from kgen.spec.epilogue import Epilogue
from kgen.spec.table import Table as Table  # noqa: PLC0414 - plug-ins have it from here


def _no_float(value: object) -> object:
    # pydantic takes 128.0 for Literal[128], even if strict.
    if isinstance(value, float):
        raise ValueError("an integer is expected")
    return value


OperandDtype = Literal["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"]
ResultDtype = Literal["float16", "bfloat16", "float32"]
SwizzleBytes = Annotated[Literal[32, 64, 128], BeforeValidator(_no_float)]
# The newest format of specs; `kgen.spec.migrations` leads to it from older ones.
FORMAT = 1
# Sizes are bounded so that arithmetic on them stays meaningful, far above any tile.
Size = Annotated[int, Field(ge=1, le=65_536)]
Count = Annotated[int, Field(ge=0, le=1_024)]


class AnyKernel(Table):
    """What is made, and how it is called."""

    name: str = Field(min_length=1, max_length=100)
    """Name of the module: an ASCII Python identifier. With `[matrix]` a pattern such as
    `bf16_128x{tile.n}`."""
    op: str
    """The operation."""
    doc: Annotated[str, Field(max_length=2_000)] = ""
    """First lines of the module's docstring; the formula, if left out."""
    arch: Literal["sm_90a"] = "sm_90a"
    """GPU architecture."""


class Kernel(AnyKernel):
    """What is made, and how it is called."""

    op: Literal["matmul"]
    """The operation."""
    entry_point: Literal["kernel", "pallas_call"] = "kernel"
    """How the kernel is written. `kernel`: its body moves the output itself.
    `pallas_call`: grid, block specs and dimension semantics describe every operand, as
    for `pl.pallas_call`, and the body sees blocks only. It runs on `plgpu.kernel`:
    JAX 0.11.2 to 0.12 lower `pl.pallas_call` itself to Triton alone on a GPU."""
    layout: Literal["nn", "nt", "tn", "tt"] = "nn"
    """How A and B lie in memory. `nn`: A is [m, k] and B is [k, n]. `t` of the first
    letter: A is [k, m]; of the second: B is [n, k]. Only 16-bit operands may be anything
    but `nt`."""
    out_order: Literal["row", "column"] = "row"
    """How the result lies in memory. `row`: it is [m, n]. `column`: it is [n, m], which
    is C in column-major order."""
    autodiff: bool = False
    """Whether the function can be differentiated with respect to A, B and what an
    epilogue takes: the module computes the gradients of A and B by two more products of
    the same tiles."""


class Dtypes(Table):
    """Types of the operands and of the result."""

    a: OperandDtype = "bfloat16"
    """Elements of A. float32 is multiplied as tf32."""
    b: OperandDtype = "bfloat16"
    """Elements of B: as A's; both 8-bit floats go together."""
    out: ResultDtype | None = None
    """Elements of the result; as A's, or bfloat16 if those are 8-bit floats, if left
    out."""
    accumulator: Literal["float32", "float16"] = "float32"
    """Elements of the accumulator."""


class Tile(Table):
    """What one CTA computes at once."""

    m: Size = 128
    """Rows of the output tile."""
    n: Size = 128
    """Columns of the output tile."""
    k: Size | None = None
    """Depth of one pipeline step; one 128-byte row of the operands, if left out."""


class Shapes(Table):
    """Which sizes the kernel takes."""

    edge: Literal["exact", "any"] = "exact"
    """`exact`: m, n and k are multiples of the tile; others are refused when the module
    is called. `any`: every size; TMA clips the last tiles, and what it cannot clip is
    padded."""
    batch: bool = False
    """Whether A and B may have leading dimensions, which broadcast as those of
    `jnp.matmul` do: A is [..., m, k] and B is [..., k, n]. One kernel multiplies all
    matrices, and `jax.vmap` of the function is a call of it."""


class Module(Table):
    """What the module offers beside its function."""

    torch: bool = False
    """Whether there is `matmul_torch` too, which takes PyTorch's CUDA tensors, through
    `plgpu.as_torch_kernel`."""


class Pipeline(Table):
    """How loads overlap with products."""

    max_concurrent_steps: Annotated[int, Field(ge=1, le=64)] | None = None
    """Slots of the SMEM ring: so many steps may be loaded or in use at once; 4, or as
    many as fit in SMEM, if left out."""
    delay_release: Count | None = None
    """Steps after which a slot is released for the next load; 1, or 0 if promoted or if
    persistent without ping-pong, if left out."""
    wgmma_in_flight: Count | None = None
    """wgmma operations that may still run when a step ends; 1, or 0 if promoted or if
    persistent without ping-pong, if left out."""
    promote: bool = False
    """Adds the sum of every step to a float32 sum in registers. Of 8-bit floats a long
    sum loses bits in the tensor cores; only for those, and only if warp-specialised."""


class Scales(Table):
    """Scales of 8-bit operands, that sums are multiplied with as they are promoted."""

    block: Annotated[Literal[128], BeforeValidator(_no_float)] | None = None
    """Elements of a row of A that share a scale, and rows and elements of B. The function
    takes `a_scale`, float32[m, k / 128], and `b_scale`, float32[n / 128, k / 128]; it
    takes none if left out. Only if warp-specialised."""


class Schedule(Table):
    """Who does what within a CTA."""

    warp_specialized: bool = False
    """One warpgroup loads, the others multiply."""
    num_compute_wgs: Annotated[int, Field(ge=1, le=7)] | None = None
    """Warpgroups that multiply: 1 to 3, only if warp-specialised; 2, if left out."""
    split: Literal["m", "n"] | None = None
    """Dimension of the tile that the compute warpgroups split; `m`, if left out."""
    memory_registers: Annotated[int, Field(ge=1, le=512)] | None = None
    """Registers per thread of the warpgroup that loads; 40, if left out."""
    persistent: bool = False
    """One CTA per SM works through many output tiles, and loads run ahead of their
    borders; only if warp-specialised."""
    ping_pong: bool = False
    """The two compute warpgroups take turns, a whole tile each: one stores its product
    while the other multiplies. Only if persistent."""
    split_k: Annotated[int, Field(ge=2, le=64)] | None = None
    """Parts that K is split into, each summed by CTAs of its own; the partial sums are
    added in a fixed order. Only if warp-specialised."""
    swap_operands: bool = False
    """Computes the transposed product, so that rows of the output are columns of
    wgmma: `tile.m` is then a multiple of 8. Only if warp-specialised."""
    dimension_semantics: tuple[Literal["parallel", "sequential"], ...] | None = Field(
        default=None, min_length=3, max_length=3
    )
    """With `entry_point = "pallas_call"`: how the grid (m, n, k) is walked;
    `["parallel", "parallel", "sequential"]`, if left out."""


ClusterSize = Annotated[Literal[1, 2], BeforeValidator(_no_float)]


class Cluster(Table):
    """CTAs that share what they load, by multicast."""

    m: ClusterSize = 1
    """Neighbours along m: they share the tiles of B. Only if warp-specialised."""
    n: ClusterSize = 1
    """Neighbours along n: they share the tiles of A. Only if warp-specialised."""


class Raster(Table):
    """The order in which output tiles are walked, so that CTAs that run at the same
    time share what they load in L2."""

    order: Literal["m", "n"] | None = None
    """Dimension along which a band is `width` tiles wide: `m` takes so many rows of
    tiles at once and walks along n, to and fro from band to band. Left out: `m` if
    `width` is given or the kernel is persistent, else rows of tiles."""
    width: Annotated[int, Field(ge=1, le=1_024)] | None = None
    """Tiles across a band; 8, if left out. Only if warp-specialised."""


class Transform(Table):
    """The SMEM layout of one operand."""

    swizzle: SwizzleBytes | Literal["auto"] = "auto"
    """Width of the swizzle in bytes."""
    tiling: (
        Annotated[tuple[Size, ...], Field(min_length=2, max_length=2)] | Literal["auto"]
    ) = "auto"
    """Tile of the TilingTransform: (8, swizzle / itemsize)."""


class Transforms(Table):
    """SMEM layouts; `auto` picks the widest legal swizzle."""

    swizzle: SwizzleBytes | Literal["auto"] = "auto"
    """Width of the swizzle of A and B in bytes."""
    a: Transform = Transform()
    """A's own layout."""
    b: Transform = Transform()
    """B's own layout."""
    out: Transform = Transform()
    """The output's layout on its way through SMEM."""


class Store(Table):
    """How the output leaves through SMEM."""

    n: Size | Literal["auto"] = "auto"
    """Columns stored at once; `auto` takes the whole tile if it fits in SMEM."""
    slots: Annotated[int, Field(ge=1, le=8)] | Literal["auto"] = "auto"
    """SMEM slots that the pieces take turns in; 2 if there are several pieces."""


Extent = Annotated[int, Field(ge=1, le=2**32)]
Shape = Annotated[tuple[Extent, ...], Field(min_length=3, max_length=3)]


Inputs = Literal["integers", "normal"]
Marker = Annotated[
    str,
    Field(
        max_length=50,
        pattern="^[A-Za-z][A-Za-z0-9_]*$",
        json_schema_extra={"examples": ["gpu"]},
    ),
]


class Test(Table):
    """How deep the standalone test goes. Only `shapes` and `batch` are also part of the
    verification, and so of the module's own digest."""

    shapes: Annotated[tuple[Shape, ...], Field(max_length=32)] = ()
    """Further sizes (m, n, k): lowered on a CPU, run by the standalone test on a GPU."""
    batch: Annotated[tuple[Extent, ...], Field(max_length=4)] = ()
    """Leading dimensions of A and B at these sizes; only with `shapes.batch`."""
    inputs: Annotated[tuple[Inputs, ...], Field(min_length=1, max_length=2)] = (
        "integers",
        "normal",
    )
    """What A and B hold; their dtypes are those of `[dtypes]`. Small `integers` show
    every wrong, missing or doubled element; `normal` values show rounding in the wrong
    place. `shapes` are run with `normal` values if those are named."""
    exact: bool = True
    """Whether the product of integers must be right bit for bit; otherwise it must be
    within the tolerance."""
    rtol: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """Allowed error relative to an element of the product; the rounding of the output's
    dtype, if left out."""
    atol: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] | None = None
    """Error allowed beside that; derived from the length of the sums and the size of
    their terms, if left out."""
    gpu_marker: Marker | None = None
    """A pytest marker on the tests that need a GPU, so that `-m` selects them."""
    gradients: bool | None = None
    """Whether gradients are tested; all that there are, if left out. There are some with
    `kernel.autodiff = true` alone."""


Code = Annotated[str, Field(max_length=5, json_schema_extra={"examples": ["KG402"]})]


class Verify(Table):
    """What verification lets pass."""

    allow: Annotated[tuple[Code, ...], Field(max_length=32)] = ()
    """Codes of legality rules that this kernel may break. The module's header names
    them. Rules about the text of a spec cannot be allowed, nor can those without which
    the kernel would not be what the spec says: see `kgen rule CODE`."""


class AnySpec(Table):
    """The spec of any operation."""

    format: Annotated[Literal[1], BeforeValidator(_no_float)] = 1
    """Format that the file is written in, above all tables; the newest, if left out.
    `kgen migrate` rewrites older ones."""
    kernel: AnyKernel


class Spec(AnySpec):
    """A kernel spec: one variant, every key resolved but for what the plan decides."""

    kernel: Kernel
    dtypes: Dtypes = Dtypes()
    tile: Tile = Tile()
    shapes: Shapes = Shapes()
    module: Module = Module()
    pipeline: Pipeline = Pipeline()
    scales: Scales = Scales()
    schedule: Schedule = Schedule()
    cluster: Cluster = Cluster()
    raster: Raster = Raster()
    transforms: Transforms = Transforms()
    store: Store = Store()
    epilogue: Epilogue = ()
    """What is done to the accumulator before it is stored, step by step, in float32."""
    test: Test = Test()
    verify: Verify = Verify()
