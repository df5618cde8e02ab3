"""What the templates of a gated linear unit place, beside what a matmul's do."""

from kgen.emit import edges, hardware, least, matmul, output, store, warpgroups
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
        "activated": in_kernel.format(x="gate"),
        **_schedule(plan),
        **_store(plan, in_kernel, str(values["out_part"])),
        **_sizes(plan),
        "has_sigmoid": True,
        "has_gelu": plan.activation == "gelu",
        "has_exact_gelu": False,
        "out_cast": cast,
        "gate_gmem": f"gate_gmem.at[{columns}]",
        "up_gmem": f"up_gmem.at[{columns}]",
        "gate_operands": operands.replace("b_smem", "gate_smem"),
        "up_operands": operands.replace("b_smem", "up_smem"),
        "weight_operands": operands.replace("b_smem", "weight_smem"),
        "glu_pieces": values["store_pieces"],
        "weight_unpacked": "(n, _)" if transposed else "(_, n)",
        "numpy_activation": NUMPY[plan.activation],
        "one_tile_x": repr((m, k)),
        "other_x": repr((m, 2 * k)),
        "vector_x": repr((m,)),
        "out_roundoff": f"2.0**-{PRECISION[plan.out_dtype]}",
        "one_tile_w": repr(weight),
        "other_w": repr((2 * n, k) if transposed else (k, 2 * n)),
        "transposed_words": "[n, k]" if transposed else "[k, n]",
    }


def _schedule(plan: MatmulPlan) -> dict[str, object]:
    """Returns what tells a ring of the kernel's own from that of JAX's pipeline."""
    return {
        "gate_first": plan.gate_first,
        "multiplies_gate_first": plan.gate_first > 0,
        "pipelines": plan.gate_first == 0,
        "last_steps": (
            "the last step"
            if plan.gate_first == 1
            else f"the last {plan.gate_first} steps"
        ),
    }


def _store(plan: MatmulPlan, in_kernel: str, out_part: str) -> dict[str, object]:
    """Returns how the output is stored: in pieces of columns, of rows, or whole."""
    by_rows = plan.swap_operands
    in_pieces = plan.store_n < plan.wg_n and not by_rows
    up = "up[:, rows]" if by_rows else "up[:, columns]"
    part = up.replace("up", "gate")
    if not plan.gate_first:
        part = in_kernel.format(x="x")
    slots = plan.store_slots
    whose = "Every warpgroup" if plan.num_compute_wgs > 1 else "The CTA"
    through = f"through {slots} SMEM slot{'s' * (slots > 1)}."
    return {
        "out_smem": _out_smem(plan),
        "has_part_of_output": plan.num_compute_wgs > 1,
        "out_of_tile": out_part.replace("out_gmem", "out_gmem.at[rows, columns]", 1),
        "stores_rows": by_rows,
        "stores_pieces": in_pieces,
        "stores_whole": not in_pieces and not by_rows,
        "has_store_constants": in_pieces,
        "gated_piece": f"{part} * {up}",
        "gated_whole": f"{'gate' if plan.gate_first else in_kernel.format(x='gate')} * up",
        "activates_pieces": not plan.gate_first,
        "store_m": plan.store_m,
        "store_rows_reason": f"{whose} stores {plan.store_m} rows at once {through}",
    }


def _out_smem(plan: MatmulPlan) -> str:
    """Returns the SMEM through which the output is stored, as source."""
    if not plan.swap_operands:
        return store.out_smem(plan)
    shape = f"STORE_SLOTS, STORE_M, {warpgroups.columns(plan)}"
    if plan.num_compute_wgs > 1:
        shape = f"COMPUTE_WGS, {shape}"
    arguments = [f"({shape})", output.store_dtype(plan), *output.transforms(plan)]
    return f"plgpu.SMEM({', '.join(arguments)})"


def _sizes(plan: MatmulPlan) -> dict[str, object]:
    """Returns what pads and cuts off around the kernel, and what is checked."""
    transposed = plan.layout == "nt"
    operands = "x, w_gate, w_up"
    if plan.any_edge:
        of_x, of_weight = least.padded_operands(plan)
        weights = (of_weight.replace("(b", f"({name}") for name in ("w_gate", "w_up"))
        operands = ", ".join([of_x.replace("(a", "(x"), *weights])
    n = "_" if plan.any_edge else "n"
    return {
        "glu_operands": operands,
        "cut": edges.cut(plan),
        "checked_x": "(_, k)" if plan.any_edge else "(m, k)",
        "weight_shape": f"({n}, w_k)" if transposed else f"(w_k, {n})",
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
    size = (
        f"{plan.wg_n}x{plan.wg_m}" if plan.swap_operands else f"{plan.wg_m}x{plan.wg_n}"
    )
    turned = (
        " The transposed output is computed, so that rows of x are columns of wgmma."
        if plan.swap_operands
        else ""
    )
    gate = "applies the gate in registers"
    if plan.gate_first:
        gate = (
            "applies the gate in registers while the last products with w_up still run"
        )
    next_tile = "the next tile"
    if plan.num_compute_wgs == 1:
        workers, stored, next_tile = "warpgroup has", "tile", "the next one"
    return (
        f"One CTA per SM works through {plan.tile_m}x{plan.tile_n} tiles of the output "
        f"in steps of {plan.tile_k} along k. A memory warpgroup keeps TMA loading tiles "
        "of x and of both weights into a ring of SMEM slots, also across the border of "
        f"two tiles of the output. The compute {workers} two accumulators of "
        f"{size}, {gate} and stores its {stored} while {next_tile} is already loading."
        f"{turned}"
    )
