"""Strategies for parts of specs that several tests draw."""

from hypothesis import strategies as st

DTYPES = ("float16", "bfloat16", "float32")
NUMBERS = st.sampled_from([-2.0, 0.0, 0.1, 0.5, 1, 448.0])
NAMES = st.sampled_from(["alpha", "bias", "row_bias", "extra", "a", "for", "TILE_M"])
OPS = (
    *("scale", "scale_rows", "scale_columns", "bias", "residual", "relu", "gelu"),
    *("silu", "tanh", "sigmoid", "clamp", "softcap", "cast", "save"),
)
KEYS = {
    "scale": {"value": NUMBERS, "argument": NAMES},
    "bias": {
        "along": st.sampled_from("mn"),
        "argument": NAMES,
        "dtype": st.sampled_from(DTYPES),
    },
    "residual": {"beta": NUMBERS, "argument": NAMES, "dtype": st.sampled_from(DTYPES)},
    "gelu": {"approximate": st.sampled_from(["tanh", "erf"])},
    "clamp": {"min": NUMBERS, "max": NUMBERS},
}
REQUIRED = {
    "softcap": {"cap": st.sampled_from([0.5, 30])},
    "cast": {"dtype": st.sampled_from(DTYPES)},
}


@st.composite
def chains(draw, least, most):
    """Returns the tables of an epilogue of so many steps; many are illegal."""
    text = ""
    for op in draw(st.lists(st.sampled_from(OPS), min_size=least, max_size=most)):
        text += f'[[epilogue]]\nop = "{op}"\n'
        keys = {k: v for k, v in KEYS.get(op, {}).items() if draw(st.booleans())}
        for key, values in (keys | REQUIRED.get(op, {})).items():
            value = draw(values)
            text += (
                f'{key} = "{value}"\n'
                if isinstance(value, str)
                else f"{key} = {value}\n"
            )
    return text
