"""What the templates of a gated linear unit place, beside what a matmul's do."""

from kgen.emit import matmul
from kgen.emit.literals import docstring_text
from kgen.epilogue.steps import FLOAT32
from kgen.plan.dtypes import PRECISION
from kgen.plan.model import MatmulPlan

ACTIVATIONS = {
    "silu": ("jax.nn.silu(gate)", "x * _sigmoid(x)"),
    "gelu": ("jax.nn.gelu(gate, approximate=True)", "_gelu(x)"),
}
NUMPY = {
    "silu": "gate / (1 + np.exp(-gate))",
    "gelu": "gate / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)))",
}


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the values of the templates `glu` and `test_glu`."""
    values = matmul.view(plan)
    transposed = plan.layout == "nt"
    in_plain_jax, in_kernel = ACTIVATIONS[plan.activation]
    operands = str(values["wgmma_operands"]).replace("a_smem", "x_smem")
    columns = "columns, :" if transposed else ":, columns"
    cast = "" if plan.out_dtype == FLOAT32 else f".astype({values['STORE_DTYPE']})"
    m, n, k = plan.units
    weight = (n, k) if transposed else (k, n)
    return values | {
        "doc": docstring_text(plan.doc if plan.doc.strip() else _formula(plan)),
        "activation": plan.activation,
        "transposed": ".T" if transposed else "",
        "unit_m": m,
        "unit_n": n,
        "unit_k": k,
        "glu_overview": docstring_text(_overview(plan)),
        "approximates": plan.out_dtype != FLOAT32,
        "gate_product": _product("w_gate", transposed),
        "up_product": _product("w_up", transposed),
        "plain_activation": in_plain_jax,
        "kernel_activation": in_kernel,
        "has_sigmoid": True,
        "has_gelu": plan.activation == "gelu",
        "has_exact_gelu": False,
        "out_cast": cast,
        "gate_gmem": f"gate_gmem.at[{columns}]",
        "up_gmem": f"up_gmem.at[{columns}]",
        "gate_operands": operands.replace("b_smem", "gate_smem"),
        "up_operands": operands.replace("b_smem", "up_smem"),
        "glu_pieces": values["store_pieces"],
        "has_store_constants": True,
        "weight_unpacked": "(n, _)" if transposed else "(_, n)",
        "weight_shape": "(n, w_k)" if transposed else "(w_k, n)",
        "numpy_activation": NUMPY[plan.activation],
        "one_tile_x": repr((m, k)),
        "vector_x": repr((m,)),
        "out_roundoff": f"2.0**-{PRECISION[plan.out_dtype]}",
        "one_tile_w": repr(weight),
        "other_w": repr((2 * n, k) if transposed else (k, 2 * n)),
        "transposed_words": "[n, k]" if transposed else "[k, n]",
    }


def _formula(plan: MatmulPlan) -> str:
    return f"{plan.activation}(x @ w_gate) * (x @ w_up) in {plan.operand_dtype}."


def _product(weight: str, transposed: bool) -> str:
    turned = ".T" if transposed else ""
    return f"jnp.dot(x, {weight}{turned}, preferred_element_type=jnp.float32)"


def _overview(plan: MatmulPlan) -> str:
    parts = "rows" if plan.split == "m" else "columns"
    return (
        f"One CTA per SM works through {plan.tile_m}x{plan.tile_n} tiles of the output "
        f"in steps of {plan.tile_k} along k. A memory warpgroup keeps TMA loading tiles "
        "of x and of both weights into a ring of SMEM slots, also across the border of "
        "two tiles of the output. The compute warpgroups split the "
        f"{parts} of a tile; each has two accumulators of {plan.wg_m}x{plan.wg_n}, "
        "applies the gate in registers and stores its part while the next tile is "
        "already loading."
    )
