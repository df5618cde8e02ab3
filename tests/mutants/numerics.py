"""Faults of numerics: what is added up, in which dtype, and when it is rounded."""

from .model import Fault, Kind

GROUP = "numerics"
NARROW_ACCUMULATOR = Kind(
    GROUP, "accumulator in the output dtype", "sums are rounded at every step"
)
NOT_RESET = Kind(
    GROUP, "accumulator not reset", "a tile begins with the sum of the one before"
)
PARTIAL_LOST = Kind(
    GROUP, "partial sum lost", "only one of two halves of K reaches the output"
)
CAST_TOO_EARLY = Kind(
    GROUP, "cast too early", "partial sums are rounded before they are added"
)
CAST_ORDER = Kind(
    GROUP, "cast order", "a sum is added in the output's dtype, not float32"
)
A_TWICE = Kind(GROUP, "A taken twice", "A's tile is multiplied with itself")
OPERANDS_SWAPPED = Kind(GROUP, "operands swapped", "B's tile times A's")
THROUGH_BFLOAT16 = Kind(
    GROUP, "rounding through bfloat16", "the sum is rounded to fewer bits on its way"
)
THROUGH_FLOAT16 = Kind(
    GROUP, "rounding through float16", "the sum is rounded to fewer bits on its way"
)
STEP_DOUBLED = Kind(GROUP, "step multiplied twice", "one step is added up twice")
SCALED = Kind(GROUP, "sum scaled", "the sum is halved, as by the mean of two parts")
BIASED = Kind(
    GROUP, "last bit lost", "the sum is cut, not rounded, to the output dtype"
)

PIPELINED, WS, CALL = "pipelined", "warp_specialized", "pallas_call"
FP16, FLOAT32 = "pipelined_fp16", "pipelined_float32_out"
ALL = (PIPELINED, WS, CALL)
CAST = "acc[...].astype(DTYPE)"
ACC = "plgpu.ACC((TILE_M, TILE_N), jnp.float32)"
PLAIN_WGMMA = "plgpu.wgmma(acc, a_smem, b_smem)"
HALVES = "product = half(0) + half(half_steps)"
CUT = (
    "lax.bitcast_convert_type(lax.bitcast_convert_type(acc[...], jnp.int32)"
    " & jnp.int32(-65536), jnp.float32).astype(DTYPE)"
)

FAULTS = (
    Fault(NARROW_ACCUMULATOR, (FP16,), ((ACC, ACC.replace("jnp.float32", "DTYPE")),)),
    Fault(
        NARROW_ACCUMULATOR,
        (PIPELINED, CALL),
        ((ACC, ACC.replace("jnp.float32", "DTYPE")),),
        variant="of bfloat16",
    ),
    Fault(
        NOT_RESET,
        ("persistent",),
        (
            ("def _walk(a_gmem,", "def _walk(acc, a_gmem,"),
            (
                "            _walk, tiles=",
                "            _with_sum, tiles=",
            ),
            ("        def multiply(acc):\n", "        def multiply():\n"),
            (
                "product = pl.run_scoped(multiply, " + ACC + ")",
                "product = multiply()",
            ),
            (
                "def _raster(",
                "def _with_sum(*refs, **sizes):\n"
                "    def walk(acc):\n        _walk(acc, *refs, **sizes)\n\n"
                f"    pl.run_scoped(walk, {ACC})\n\n\ndef _raster(",
            ),
        ),
    ),
    Fault(PARTIAL_LOST, ("two_halves",), ((HALVES, "product = half(half_steps)"),)),
    Fault(
        CAST_TOO_EARLY,
        ("two_halves",),
        (("            return acc[...]\n", f"            return {CAST}\n"),),
    ),
    Fault(
        CAST_ORDER,
        ("two_halves",),
        ((HALVES, "product = half(0) + half(half_steps).astype(DTYPE)"),),
    ),
    Fault(A_TWICE, ALL[::2], ((PLAIN_WGMMA, "plgpu.wgmma(acc, a_smem, a_smem)"),)),
    Fault(
        A_TWICE,
        (WS,),
        (
            (
                "a_smem.at[_wg_rows()], b_smem)",
                "a_smem.at[_wg_rows()], a_smem.at[pl.ds(0, TILE_K)])",
            ),
        ),
    ),
    Fault(
        OPERANDS_SWAPPED, ALL[::2], ((PLAIN_WGMMA, "plgpu.wgmma(acc, b_smem, a_smem)"),)
    ),
    Fault(
        THROUGH_BFLOAT16,
        (FP16,),
        ((CAST, "acc[...].astype(jnp.bfloat16).astype(DTYPE)"),),
    ),
    Fault(
        THROUGH_BFLOAT16,
        (FLOAT32,),
        (("return acc[...]  ", "return acc[...].astype(DTYPE).astype(OUT_DTYPE)  "),),
    ),
    Fault(
        THROUGH_FLOAT16,
        (FLOAT32,),
        (
            (
                "return acc[...]  ",
                "return acc[...].astype(jnp.float16).astype(OUT_DTYPE)  ",
            ),
        ),
    ),
    Fault(
        STEP_DOUBLED,
        (PIPELINED,),
        ((f"            {PLAIN_WGMMA}\n", f"            {PLAIN_WGMMA}\n" * 2),),
    ),
    Fault(SCALED, ALL[:1], ((CAST, "(acc[...] * 0.5).astype(DTYPE)"),)),
    Fault(BIASED, (PIPELINED, CALL), ((CAST, CUT),)),
)
