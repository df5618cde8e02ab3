"""Faults of epilogues as chains: which step, on what, and in which order."""

from .model import Fault, Kind

GROUP = "chains"
BIAS_TWICE = Kind(GROUP, "bias added twice", "a step is done once more")
SCALE_MISSED = Kind(GROUP, "scale missed", "a step is left out")
WRONG_ROW = Kind(
    GROUP, "wrong row of a residual", "every warpgroup adds the rows of the first"
)
WRONG_AXIS = Kind(
    GROUP, "bias along the wrong axis", "rows get what is meant for columns"
)
FIRST_COLUMNS = Kind(
    GROUP, "bias of the first piece", "every piece gets the bias of the first columns"
)
CAST_BEFORE = Kind(GROUP, "cast before the bias", "the sum is rounded on its way")
ACTIVATION_BEFORE = Kind(
    GROUP, "activation before the bias", "two steps have changed places"
)
SAVED_AFTER = Kind(
    GROUP, "saved after the activation", "the second output is the first once more"
)
OUTPUTS_SWAPPED = Kind(GROUP, "outputs swapped", "each is stored where the other goes")
NOT_WHOLE = Kind(
    GROUP, "argument not padded", "the last tiles read beyond the end of a vector"
)
BEYOND = Kind(
    GROUP, "eights beyond the end", "the last tile reads beyond the end of a vector"
)
FIRST_EIGHT = Kind(
    GROUP, "same eight every time", "every eighth column gets what is the first one's"
)
SLOT_OF_BOTH = Kind(
    GROUP, "slot of both outputs", "one output is written while the other leaves"
)

LINEAR, SAVED, ANY = "chain_linear", "chain_saved", "chain_any"
BIAS = "x = x + _per_column(bias_gmem, x.shape)\n"
SCALE = "    x = x * alpha_gmem[0]\n"
RELU = "    x = jnp.maximum(x, 0)\n"
ADDED = "optimized=False)\n    x = x + residual\n"
GELU = "    x = _gelu(x)\n"
SAVE = "    saved = x.astype(DTYPE)\n"

PIECE = "product[:, columns],\n            alpha_gmem,\n            bias_gmem.at["

FAULTS = (
    Fault(NOT_WHOLE, (ANY,), (("_whole(bias, 8)", "bias"),)),
    Fault(
        BEYOND,
        (ANY,),
        (("jnp.minimum(first_column + i, last)", "first_column + i"),),
    ),
    Fault(FIRST_EIGHT, (ANY,), (("first_column + i, last", "first_column, last"),)),
    Fault(BIAS_TWICE, (LINEAR, SAVED), ((BIAS, BIAS + "    " + BIAS),)),
    Fault(SCALE_MISSED, (LINEAR,), ((SCALE, ""),)),
    Fault(
        WRONG_ROW,
        (LINEAR,),
        (("residual_gmem.at[_wg_rows()]", "residual_gmem.at[pl.ds(0, WG_M)]"),),
    ),
    Fault(
        WRONG_AXIS,
        (LINEAR, SAVED),
        (
            (
                "reduce(0)\n    vector = plgpu.load(vector_gmem, layout=layout, "
                "optimized=False)\n    return lax.broadcast_in_dim(vector, shape, [1])",
                "reduce(1)\n    vector = plgpu.load(vector_gmem, layout=layout, "
                "optimized=False)\n    return lax.broadcast_in_dim(vector, shape, [0])",
            ),
        ),
    ),
    Fault(
        FIRST_COLUMNS,
        (LINEAR,),
        ((PIECE + "columns]", PIECE + ":STORE_N]"),),
    ),
    Fault(
        CAST_BEFORE,
        (LINEAR,),
        (("    " + BIAS, "    x = x.astype(DTYPE).astype(jnp.float32)\n    " + BIAS),),
    ),
    Fault(
        ACTIVATION_BEFORE,
        (LINEAR,),
        ((ADDED + RELU, ADDED), ("    " + BIAS, RELU + "    " + BIAS)),
    ),
    Fault(
        ACTIVATION_BEFORE,
        (SAVED,),
        ((GELU, ""), ("    " + BIAS, GELU + "    " + BIAS)),
        variant="of gelu",
    ),
    Fault(SAVED_AFTER, (SAVED,), ((SAVE + GELU, GELU + SAVE),)),
    Fault(
        OUTPUTS_SWAPPED,
        (SAVED,),
        (("(out_gmem, saved_gmem), strict", "(saved_gmem, out_gmem), strict"),),
    ),
    Fault(
        SLOT_OF_BOTH,
        (SAVED,),
        (("out_smem.at[(2 * piece + i) % STORE_SLOTS]", "out_smem.at[0]"),),
    ),
)
