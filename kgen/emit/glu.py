"""What the templates of a gated linear unit place, beside what a matmul's do."""

from kgen.emit import hardware, matmul
from kgen.emit.literals import docstring_text
from kgen.epilogue.steps import FLOAT32
from kgen.plan.dtypes import PRECISION
from kgen.plan.model import MatmulPlan

ACTIVATIONS = {
    "silu": ("jax.nn.silu(gate)", "{x} * _sigmoid({x})"),
    "gelu": ("jax.nn.gelu(gate, approximate=True)", "_gelu({x})"),
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
        "doc": docstring_text(plan.doc if plan.doc.strip() else _headline(plan)),
        "activation": plan.activation,
        "formula": _formula(plan),
        "transposed": ".T" if transposed else "",
        "unit_m": m,
        "unit_n": n,
        "unit_k": k,
        "glu_overview": docstring_text(_overview(plan)),
        "approximates": plan.out_dtype != FLOAT32,
        "approximated": hardware.approximated(plan, {plan.activation}),
        "gate_product": _product("w_gate", transposed),
        "up_product": _product("w_up", transposed),
        "plain_activation": in_plain_jax,
        "piece_activation": in_kernel.format(x="x"),
        "whole_activation": in_kernel.format(x="gate"),
        "has_sigmoid": True,
        "has_gelu": plan.activation == "gelu",
        "has_exact_gelu": False,
        "out_cast": cast,
        "gate_gmem": f"gate_gmem.at[{columns}]",
        "up_gmem": f"up_gmem.at[{columns}]",
        "gate_operands": operands.replace("b_smem", "gate_smem"),
        "up_operands": operands.replace("b_smem", "up_smem"),
        "glu_pieces": values["store_pieces"],
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


def _headline(plan: MatmulPlan) -> str:
    return f"{_formula(plan)} in {plan.operand_dtype}."


def _formula(plan: MatmulPlan) -> str:
    turned = ".T" * (plan.layout == "nt")
    return f"{plan.activation}(x @ w_gate{turned}) * (x @ w_up{turned})"


def _product(weight: str, transposed: bool) -> str:
    turned = ".T" if transposed else ""
    return f"jnp.dot(x, {weight}{turned}, preferred_element_type=jnp.float32)"


def _overview(plan: MatmulPlan) -> str:
    parts = "rows" if plan.split == "m" else "columns"
    workers, stored = f"warpgroups split the {parts} of a tile; each has", "part"
    next_tile = "the next tile"
    if plan.num_compute_wgs == 1:
        workers, stored, next_tile = "warpgroup has", "tile", "the next one"
    return (
        f"One CTA per SM works through {plan.tile_m}x{plan.tile_n} tiles of the output "
        f"in steps of {plan.tile_k} along k. A memory warpgroup keeps TMA loading tiles "
        "of x and of both weights into a ring of SMEM slots, also across the border of "
        f"two tiles of the output. The compute {workers} two accumulators of "
        f"{plan.wg_m}x{plan.wg_n}, applies the gate in registers and stores its "
        f"{stored} while {next_tile} is already loading."
    )
