"""What the matmul templates place about gradients.

The kernel of a module that has gradients takes operands in any layout: what others write
out, such as `(TILE_K, TILE_M)`, is then made from the order of the operand.
"""

from kgen.emit.literals import docstring_text, tuples
from kgen.epilogue.steps import FLOAT32
from kgen.gradients import COTANGENT, Gradient, gradients
from kgen.layouts import operand_dims
from kgen.plan.model import MatmulPlan

OF_A, OF_B = "of_a", "of_b"


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the values that gradients add or change, to come after all others'."""
    plain: dict[str, object] = {
        "differentiates": plan.autodiff,
        "differentiates_product": plan.autodiff and not plan.epilogue,
        "tests_gradients": plan.test.gradients,
        "tests_gradients_of_product": plan.test.gradients and not plan.epilogue,
        "tests_gradients_of_epilogue": plan.test.gradients and bool(plan.epilogue),
        "checks_gradients": False,
        "checks_multiples": False,
        "forward_only": not plan.autodiff,
        "or_differentiated": "" if plan.autodiff else ", or it is differentiated",
        "gradient_remedy": _remedy(plan),
        "layout_first": "",
        "layout_only": "",
        "layout_passed": "",
        "operand_lines": (),
        "both_shapes": (
            "a.shape[-2:], b.shape[-2:]" if plan.batched else "a.shape, b.shape"
        ),
    }
    return plain | _changed(plan) if plan.autodiff else plain


def call(plan: MatmulPlan, *operands: str) -> str:
    """Returns the call of the kernel, which says so if it has no gradient rule."""
    given = ", ".join(operands)
    return f"kernel({given})" if plan.autodiff else f"kernel(*_forward_only({given}))"


def _remedy(plan: MatmulPlan) -> str:
    """Returns how one differentiates a kernel without a gradient rule."""
    if plan.may_differentiate:
        return "render its spec with autodiff = true"
    return "define one around it with jax.custom_vjp"


def formula(gradient: Gradient, cotangent: str = "dC") -> str:
    """Returns a gradient in terms of A, B and the cotangent, as they are stored."""
    names = (
        cotangent if name == COTANGENT else name.upper() for name in gradient.operands
    )
    return _multiplied(gradient, *names)


def _multiplied(gradient: Gradient, first: str, second: str) -> str:
    return " @ ".join(
        name + ".T" * (order == "t")
        for name, order in zip((first, second), gradient.layout, strict=True)
    )


def _changed(plan: MatmulPlan) -> dict[str, object]:
    statics = _statics(plan)
    of_a, of_b = gradients(plan.layout)
    grad_a, grad_b = calls(plan)
    rows = _too_small(plan)
    tall = _too_tall(plan)
    sizes = _unpacked(plan, {*dict(rows), *tall})
    first = 3 if plan.epilogue else 2  # Behind A, B and the terms of an epilogue.
    return {
        "layout": plan.layout,
        "statics": ", ".join(statics),
        "nondiff": tuple(range(first, first + len(statics))),
        "gradients_about": docstring_text(_about(plan)),
        "casts_cotangent": plan.out_dtype != plan.operand_dtype,
        "cotangent_cast": _cast(plan),
        "of_grad_a": grad_a + _cast(plan),
        "of_grad_b": grad_b + _cast(plan),
        "checks_gradients": bool(rows or tall),
        "checks_multiples": bool(rows),
        "checks_several_multiples": len(rows) > 1,
        "checks_several_heights": len(tall) > 1,
        "gradient_units": rows,
        "gradient_heights": tall,
        "only_multiple_check": _multiple_check(*rows[0]) if len(rows) == 1 else [],
        "only_height_check": _height_check(*tall) if len(tall) == 1 else [],
        "gradient_shapes": tuples(_tested(plan)),
        "interpreted_by": f"{'num_sms=num_sms, ' * plan.persistent}interpret=INTERPRET",
        "numpy_gradients": ", ".join(
            _multiplied(each, *each.operands) for each in (of_a, of_b)
        ),
        "first_refused": rows[0][0] if rows else "",
        "gradient_sizes": sizes,
        "operands_to_differentiate": ", ".join(
            name for name in "ab" if any(f"{name}.shape" in line for line in sizes)
        ),
        **_of_any_layout(plan),
    }


def calls(plan: MatmulPlan) -> tuple[str, str]:
    """Returns the products that are the gradients of A and B, as source."""
    statics = ", ".join(_statics(plan))
    of_a, of_b = gradients(plan.layout)
    return _call(of_a, statics), _call(of_b, statics)


def _statics(plan: MatmulPlan) -> list[str]:
    return ["num_sms", "interpret"] if plan.persistent else ["interpret"]


def _about(plan: MatmulPlan) -> str:
    """Returns what the docstring says about gradients."""
    cotangent = "dX" if plan.epilogue else "dC"
    of_a, of_b = (formula(each, cotangent) for each in gradients(plan.layout))
    products = f"dA = {of_a} and dB = {of_b}, by the same kernel, for {_sizes(plan)}."
    if plan.epilogue:
        return f"It has gradients: {_about_epilogue(plan)} Then {products}"
    text = f"It has gradients: of a cotangent dC, {products}"
    if plan.out_dtype != plan.operand_dtype:
        text += f" dC is rounded to {plan.operand_dtype} before, and dA and dB after."
    return text


def _about_epilogue(plan: MatmulPlan) -> str:
    """Returns how the cotangent dX of the product comes from that of the output."""
    where = "at the product"
    if plan.out_dtype != FLOAT32:
        where += f" as rounded to {plan.out_dtype}"
    rounded = f"dX is rounded to {plan.operand_dtype} before it is multiplied"
    if plan.out_dtype != plan.operand_dtype:
        rounded += ", and dA and dB after"
    return (
        f"JAX differentiates the epilogue {where}, which the kernel stores beside the "
        "output when it is differentiated. That makes of a cotangent dC the one of the "
        f"product, dX, and those of the epilogue's arguments; {rounded}."
    )


def _sizes(plan: MatmulPlan) -> str:
    """Returns for which sizes there are gradients, in words."""
    if plan.any_edge:
        return "any m, n and k"
    m, n, k = plan.units_to_differentiate
    return f"m a multiple of {m}, n of {n} and k of {k}"


def _cast(plan: MatmulPlan) -> str:
    return "" if plan.out_dtype == plan.operand_dtype else ".astype(DTYPE)"


def _tested(plan: MatmulPlan) -> tuple[tuple[int, ...], ...]:
    """Returns the sizes at which the standalone test has gradients.

    One cluster has all tiles: JAX 0.11 cannot interpret some other shares.
    """
    sms = (plan.cluster,) * plan.persistent
    return tuple((c.m, c.n, c.k, *sms) for c in plan.cases if c.differentiate)


def _call(gradient: Gradient, statics: str) -> str:
    return f'_product({", ".join(gradient.operands)}, "{gradient.layout}", {statics})'


def _too_small(plan: MatmulPlan) -> tuple[tuple[str, int], ...]:
    """Returns the sizes that must be multiples of more than the product asks for."""
    sizes = zip("mnk", plan.units, plan.units_to_differentiate, strict=True)
    return tuple((axis, unit) for axis, least, unit in sizes if unit != least)


def _too_tall(plan: MatmulPlan) -> tuple[str, ...]:
    """Returns the sizes other than m that are rows of a gradient, if these are limited."""
    if plan.raster is not None:
        return ()
    rows = {gradient.sizes[0] for gradient in gradients(plan.layout)}
    return tuple(sorted(rows - {"m"}))


def _multiple_check(name: str, unit: int) -> list[str]:
    """Returns lines that check a size whose multiples alone have gradients."""
    message = f"to differentiate, {name} must be a multiple of {unit}, got {{{name}}}"
    return [f"if {name} % {unit}:", f'    raise ValueError(f"{message}")']


def _height_check(name: str) -> list[str]:
    """Returns lines that check a size which is rows of a gradient."""
    message = f"to differentiate, {name} must be at most {{MAX_M}}, got {{{name}}}"
    return [f"if {name} > MAX_M:", f'    raise ValueError(f"{message}")']


def _unpacked(plan: MatmulPlan, used: set[str]) -> list[str]:
    """Returns lines that take these sizes from the shapes of A and B."""
    lines = []
    for operand, dims in zip("ab", operand_dims(plan.layout), strict=True):
        names = [axis if axis in used else "_" for axis in dims.split(", ")]
        if names != ["_", "_"]:
            lines.append(f"{', '.join(names)} = {operand}.shape")
        used = used - {"k"}  # A has it already.
    return lines


def _stored(order: str, rows: str, columns: str) -> str:
    return f"_stored({order}, {rows}, {columns})"


def _of_any_layout(plan: MatmulPlan) -> dict[str, object]:
    """Returns the parts of the kernel that depend on how its operands are stored."""
    whole = "slice(None)"
    ki = "first + ki" if plan.split_k > 1 else "ki"
    m, n = ("0", "0") if plan.persistent else ("m", "n")
    share_a = ['"neighbour"'] if plan.cluster_n > 1 else []
    share_b = ['"neighbour"'] if plan.cluster_m > 1 else []
    of_tile = ["layout"] + ["tiles"] * (plan.raster is not None) + ["num_steps"]
    a_tile = _stored(OF_A, "TILE_M", "TILE_K")
    b_tile = _stored(OF_B, "TILE_K", "TILE_N")
    ring = "plgpu.SMEM((MAX_CONCURRENT_STEPS, *{}), DTYPE, transforms=TRANSFORMS)"
    lines, operands = _operands(plan)
    return {
        "layout_first": "layout, ",
        "layout_only": "layout",
        "layout_passed": "layout=layout, ",
        "step": "functools.partial(_multiply, layout)",
        "both_shapes": "_stored(of_a, *a.shape), _stored(of_b, *b.shape)",
        "a_shape": "(m, k)",
        "b_unpacked": "(_, n)",
        "a_operand": "_logical(of_a, a_smem)",
        "b_operand": "_logical(of_b, b_smem)",
        "rows_of_a": _stored(OF_A, "rows", whole),
        "columns_of_b": _stored(OF_B, whole, "columns"),
        "a_block": ", ".join([a_tile, f"lambda ki: {_stored(OF_A, m, ki)}", *share_a]),
        "b_block": ", ".join([b_tile, f"lambda ki: {_stored(OF_B, ki, n)}", *share_b]),
        "a_step": _stored(OF_A, "rows", "steps"),
        "b_step": _stored(OF_B, "steps", "columns"),
        "slot_operands": "_logical(of_a, ring.a_smem.at[slot]), "
        "_logical(of_b, ring.b_smem.at[slot])",
        "a_ring": ring.format(a_tile),
        "b_ring": ring.format(b_tile),
        "operand_lines": lines,
        "wgmma_operands": operands,
        "tile_parameters": ", ".join(of_tile),
    }


def _operands(plan: MatmulPlan) -> tuple[list[str], str]:
    """Returns lines before a wgmma, and its operands: a warpgroup's part of each."""
    a, b, lines = "a_smem", "b_smem", ["of_a, of_b = layout"]
    if plan.num_compute_wgs > 1 and plan.split == "m":
        lines.append(f"rows = {_stored(OF_A, '_wg_rows()', 'slice(None)')}")
        a = "a_smem.at[rows]"
    if plan.num_compute_wgs > 1 and plan.split == "n":
        lines.append(f"columns = {_stored(OF_B, 'slice(None)', '_wg_columns()')}")
        b = "b_smem.at[columns]"
    return lines, f"_logical(of_a, {a}), _logical(of_b, {b})"
