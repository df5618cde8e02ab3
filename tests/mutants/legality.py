"""Faults of legality: what the hardware or Mosaic GPU cannot do."""

from .model import Fault, Kind

GROUP = "legality"
TILE_M = Kind(GROUP, "tile.m not a multiple of 64", "wgmma has 64 rows")
TILE_N = Kind(
    GROUP, "tile.n illegal for the swizzle", "N-major B needs whole swizzle rows"
)
TILE_N_WIDE = Kind(GROUP, "tile.n above 256", "wgmma has at most 256 columns")
TILE_K = Kind(GROUP, "tile.k below the swizzle", "a step is half a swizzle row deep")
SWIZZLES_DIFFER = Kind(
    GROUP, "swizzles of A and B differ", "wgmma knows one swizzle for both"
)
TILING_OF_ANOTHER = Kind(
    GROUP, "tiling of another swizzle", "tiling and swizzle do not belong together"
)
SMEM_TOO_LARGE = Kind(GROUP, "SMEM too large", "more than 232,448 bytes per CTA")
TMA_BOX = Kind(GROUP, "TMA box above 256", "a copy has at most 256 rows")
STRIDE = Kind(GROUP, "unaligned GMEM stride", "TMA's strides are multiples of 16 bytes")
REGISTERS_UNEVEN = Kind(
    GROUP, "registers not a multiple of 8", "setmaxnreg takes multiples of 8"
)
REGISTERS_SUM = Kind(
    GROUP, "registers over-subscribed", "threads times registers exceed 65,536"
)
REGISTERS_KEPT = Kind(
    GROUP, "registers not given away", "the others wait for the loader's registers"
)
CLUSTER = Kind(
    GROUP,
    "cluster of an illegal size",
    "3 is none; 16 is not portable, though one GPU may run it",
)
DTYPES_DIFFER = Kind(
    GROUP, "operand dtypes differ", "wgmma multiplies one dtype with itself"
)
ACCUMULATOR = Kind(
    GROUP, "accumulator dtype illegal", "bfloat16 is accumulated in float32 only"
)
FLOAT32_TRANSPOSED = Kind(
    GROUP, "float32 operand transposed", "only 16-bit operands may be transposed"
)
SPLIT = Kind(
    GROUP, "warpgroup part not a multiple of 64", "three warpgroups share 128 rows"
)
TOO_MANY_THREADS = Kind(
    GROUP, "more than 1,024 threads", "a CTA has at most eight warpgroups"
)

PIPELINED, WS, CALL = "pipelined", "warp_specialized", "pallas_call"
ALL = (PIPELINED, WS, CALL)
TILE = "TILE_M, TILE_N, TILE_K = 64, 64, 64"
WS_TILE = "TILE_M, TILE_N, TILE_K = 128, 64, 64"
LAYOUT = "(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))"
NARROW = "(plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(64))"
TRANSFORMS = f"\nTRANSFORMS = {LAYOUT}\n"
BLOCK_SPEC = "shape, index_map, transforms=TRANSFORMS"

FAULTS = (
    Fault(
        TILE_M,
        (PIPELINED, CALL),
        ((TILE, TILE.replace("64", "96", 1)),),
        sizes=(192, 192, 384),
    ),
    Fault(
        TILE_M,
        (WS,),
        ((WS_TILE, WS_TILE.replace("128", "64")),),
    ),
    Fault(
        TILE_N,
        (PIPELINED, CALL),
        ((TILE, "TILE_M, TILE_N, TILE_K = 64, 72, 64"),),
        sizes=(128, 216, 384),
    ),
    Fault(
        TILE_N,
        (WS,),
        ((WS_TILE, "TILE_M, TILE_N, TILE_K = 128, 72, 64"),),
        sizes=(256, 216, 320),
    ),
    Fault(
        TILE_N_WIDE,
        (PIPELINED, CALL),
        ((TILE, "TILE_M, TILE_N, TILE_K = 64, 320, 64"),),
        sizes=(128, 320, 384),
    ),
    Fault(TILE_K, (PIPELINED, CALL), ((TILE, "TILE_M, TILE_N, TILE_K = 64, 64, 32"),)),
    Fault(TILE_K, (WS,), ((WS_TILE, "TILE_M, TILE_N, TILE_K = 128, 64, 32"),)),
    Fault(
        SWIZZLES_DIFFER,
        ALL,
        (
            (BLOCK_SPEC, "shape, index_map, transforms=transforms"),
            ("def _block(shape, index_map):", f"def _block({BLOCK_SPEC}):"),
            ("lambda ki: (ki, n))", f"lambda ki: (ki, n), {NARROW})"),
        ),
    ),
    Fault(
        TILING_OF_ANOTHER,
        ALL,
        ((TRANSFORMS, TRANSFORMS.replace("Transform(128)", "Transform(64)")),),
    ),
    Fault(
        SMEM_TOO_LARGE,
        (PIPELINED, CALL),
        (("MAX_CONCURRENT_STEPS = 3", "MAX_CONCURRENT_STEPS = 16"),),
        sizes=(128, 192, 1088),
    ),
    Fault(
        SMEM_TOO_LARGE,
        (WS,),
        (("MAX_CONCURRENT_STEPS = 2", "MAX_CONCURRENT_STEPS = 10"),),
        sizes=(256, 192, 768),
    ),
    Fault(
        TMA_BOX,
        ("pipelined_plain_rows",),
        (
            (
                "TILE_M, TILE_N, TILE_K = 64, 24, 64",
                "TILE_M, TILE_N, TILE_K = 320, 24, 64",
            ),
        ),
        sizes=(640, 72, 320),
    ),
    Fault(STRIDE, ("two_halves",), (("n + -n % ALIGNMENT", "n"),)),
    Fault(
        REGISTERS_UNEVEN, (WS,), (("MEMORY_REGISTERS = 40", "MEMORY_REGISTERS = 44"),)
    ),
    Fault(
        REGISTERS_UNEVEN, ("ring",), (("REGISTERS = 40, 232", "REGISTERS = 44, 228"),)
    ),
    Fault(REGISTERS_SUM, ("ring",), (("REGISTERS = 40, 232", "REGISTERS = 40, 248"),)),
    Fault(
        REGISTERS_KEPT,
        ("ring",),
        (('plgpu.set_max_registers(MEMORY_REGISTERS, action="decrease")', "pass"),),
    ),
    Fault(
        CLUSTER,
        ("cluster",),
        (("CLUSTER = 2", "CLUSTER = 3"),),
        variant="3",
        sizes=(192, 128, 320),
    ),
    Fault(
        CLUSTER,
        ("cluster",),
        (("CLUSTER = 2", "CLUSTER = 16"),),
        variant="16",
        sizes=(1024, 128, 192),
    ),
    Fault(
        DTYPES_DIFFER,
        (PIPELINED,),
        (("_forward_only(a, b)", "_forward_only(a, b.astype(jnp.float16))"),),
    ),
    Fault(
        ACCUMULATOR,
        ALL[::2],
        (
            (
                "plgpu.ACC((TILE_M, TILE_N), jnp.float32)",
                "plgpu.ACC((TILE_M, TILE_N), jnp.float16)",
            ),
        ),
    ),
    Fault(
        SPLIT,
        (WS,),
        (
            ("COMPUTE_WGS = 2 ", "COMPUTE_WGS = 3 "),
            (WS_TILE, "TILE_M, TILE_N, TILE_K = 96, 64, 64"),
        ),
        sizes=(192, 192, 320),
    ),
    Fault(
        TOO_MANY_THREADS,
        (WS,),
        (
            ("COMPUTE_WGS = 2 ", "COMPUTE_WGS = 8 "),
            (WS_TILE, "TILE_M, TILE_N, TILE_K = 512, 64, 64"),
        ),
        sizes=(512, 192, 320),
    ),
)
