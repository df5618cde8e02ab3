"""What the template of a matmul's standalone test places."""

import math
import textwrap

from kgen.cases import unequal
from kgen.emit import batches, epilogue_test
from kgen.emit.literals import LINE_LENGTH, tuples
from kgen.float8 import FLOAT8, SUM_BITS, promoted_error
from kgen.layouts import (
    COLUMN,
    broadcast,
    is_transposed,
    operand_dims,
    operand_shapes,
    out_shape,
)
from kgen.plan.dtypes import PRECISION
from kgen.plan.model import Case, MatmulPlan

type Size = int | tuple[int, ...]

COMMENT_WIDTH = LINE_LENGTH - len("    # ")
INTEGERS = "Small integers: their products and sums are exact in float32."
FLOAT8_INTEGERS = (
    "-1, 0 and 1: a GPU adds products of 8-bit floats with 13 bits, exactly so."
)


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the values of the template `test_matmul`."""
    m, n, k = plan.blocks
    float8 = plan.operand_dtype in FLOAT8
    one_tile_a, one_tile_b = operand_shapes(plan.layout, m, n, k)
    other = "bfloat16" if plan.operand_dtype != "bfloat16" else "float16"
    cases = [_shape(plan, case) for case in plan.cases[: _num_cases(plan)]]
    reason, tolerance = _tolerance(plan)
    sizes = [*(["a_batch", "b_batch"] if plan.batched else []), "m", "n", "k"]
    names = [*sizes, *(["num_sms"] if plan.persistent else [])]
    operands = epilogue_test.operands(plan)
    sms = "num_sms=num_sms, " if plan.persistent else ""
    return {
        "imports": _imports(plan),
        "shapes_are": _shapes_are(plan),
        "shapes": tuples(tuple(cases)),
        "gpu_shapes": tuples(_gpu_shapes(plan)),
        "sizes": ", ".join(sizes),
        "gpu_size_names": f"({', '.join(map(_quoted, sizes))})",
        "terms": "max(k, 1)" if plan.any_edge else "k",
        "without_elements": ", ".join([*["(2,)"] * (len(sizes) - 3), "m, n, k"]),
        "one_block": f"{m}, {n}, {k}",
        "no_matrices": repr((2, 0, *out_shape(plan.out_order, m, n))),
        "no_results": repr({(2, 0, *out_shape(plan.out_order, m, n))}),
        "size_names": f"({', '.join(map(repr, names))})",
        "size_parameters": ", ".join(names),
        "interpreted": f"module.matmul({operands}, {sms}interpret=INTERPRET)",
        "B_DTYPE": "DTYPE" if plan.b_dtype == plan.operand_dtype else "B_DTYPE",
        "integers_are": FLOAT8_INTEGERS if float8 else INTEGERS,
        "integers_range": "-1, 2" if float8 else "-3, 4",
        "first_size": f"*SHAPES[0]{f'[:{len(sizes)}]' * plan.persistent}",
        **_layouts(plan),
        "tolerance_reason": "\n    # ".join(textwrap.wrap(reason, COMMENT_WIDTH)),
        "tolerance": tolerance,
        "size": "size" if plan.test.atol is None else "_",
        **_depth(plan),
        **epilogue_test.view(plan, tolerance, reason),
        "refusals": _refusals(plan),
        "other_dtype": other,
        "one_tile_a": repr(one_tile_a),
        "one_tile_b": repr(one_tile_b),
    }


def _quoted(name: str) -> str:
    return f'"{name}"'


def _gpu_shapes(plan: MatmulPlan) -> tuple[tuple[Size, ...], ...]:
    batches = (plan.gpu_batch, plan.gpu_batch) if plan.batched else ()
    return tuple((*batches, *shape) for shape in plan.gpu_shapes)


def _shapes_are(plan: MatmulPlan) -> str:
    """Returns a comment on the sizes."""
    if plan.batched:
        text = (
            "The leading dimensions of A and B, none among them; then m, n and k"
            f"{', and SMs' if plan.persistent else ''}."
        )
    elif plan.any_edge:
        sms = ", and SMs" if plan.persistent else ""
        text = f"One element; a little less and more than a tile; whole tiles; primes{sms}."
    elif plan.persistent:
        text = (
            "One, two, three and seven tiles along each axis, no two axes alike, and the "
            "SMs that share them: one for all, one each, and shares that differ."
        )
    else:
        text = "One, two, three and seven tiles along each axis; no two axes alike."
    return "\n".join(
        textwrap.wrap(
            text, LINE_LENGTH - 2, initial_indent="# ", subsequent_indent="# "
        )
    )


def _layouts(plan: MatmulPlan) -> dict[str, object]:
    """Returns how operands and results lie in memory."""
    a_is_transposed, b_is_transposed = is_transposed(plan.layout)
    a_dims, b_dims = operand_dims(plan.layout)
    in_columns = plan.out_order == COLUMN
    height, width = "len(wrong)", "wrong.shape[1]"
    if plan.batched:
        height, width = "wrong.shape[-2]", "wrong.shape[-1]"
    place = "place_in_batch" if plan.batched else "place"
    wrong = batches.turned(plan, "wrong.T") if in_columns else "wrong"
    a, b = "np.asarray(a, np.float64)", "np.asarray(b, np.float64)"
    products = ("a @ b", "np.abs(a) @ np.abs(b)")
    last = "last:" if plan.any_edge else "module.TILE_K :"
    rows, columns = f"-{last}", f":, -{last}"
    if plan.batched:
        rows, columns = f"..., -{last}, :", f"..., -{last}"
    return {
        "operand_words": (
            f"A as [{a_dims}] and B as [{b_dims}]"
            if a_is_transposed
            else f"A and B, B as [{b_dims}]"
        ),
        "a_shape_literal": batches.in_batch(plan, f"({a_dims})", "*a_batch"),
        "b_shape_literal": batches.in_batch(plan, f"({b_dims})", "*b_batch"),
        "logical_operands": batches.turned(
            plan, f"{a}{'.T' * a_is_transposed}, {b}{'.T' * b_is_transposed}"
        ),
        "products": ", ".join(
            batches.turned(plan, f"({each}).T") if in_columns else each
            for each in products
        ),
        "a_tail": f"a[{rows}]" if a_is_transposed else f"a[{columns}]",
        "b_tail": f"b[{columns}]" if b_is_transposed else f"b[{rows}]",
        "worst_place": (
            "{', '.join(map(str, worst))}" if plan.batched else "{worst[0]}, {worst[1]}"
        ),
        "last_step": "{last}" if plan.any_edge else "{module.TILE_K}",
        "depth": _k_of_a(plan),
        # Replacement fields of an f-string.
        "k_of_a": f"{{{_k_of_a(plan)}}}",
        "m_of_wrong": f"{{{width if in_columns else height}}}",
        "n_of_wrong": f"{{{height if in_columns else width}}}",
        "wrong_places": f"{{{place}({wrong})}}",
    }


def _k_of_a(plan: MatmulPlan) -> str:
    a_is_transposed, _ = is_transposed(plan.layout)
    if plan.batched:
        return "a.shape[-2]" if a_is_transposed else "a.shape[-1]"
    return "len(a)" if a_is_transposed else "a.shape[1]"


def _num_cases(plan: MatmulPlan) -> int:
    """Returns how many of the verified sizes the test has, too."""
    if plan.batched:
        return 5
    return 6 if plan.any_edge or plan.persistent else 4


def _shape(plan: MatmulPlan, case: Case) -> tuple[Size, ...]:
    """Returns a size, and the SMs that share its tiles if the kernel is persistent."""
    size: tuple[Size, ...] = (case.m, case.n, case.k)
    if plan.batched:
        size = (case.a_batch, case.b_batch, *size)
    if case.num_sms is None:
        return size
    tiles = math.prod(plan.grid(case.m, case.n)) // plan.cluster
    tiles *= math.prod(broadcast(case.a_batch, case.b_batch))
    ctas = case.num_sms // plan.cluster
    if tiles % ctas and tiles < 2 * ctas:
        # JAX 0.11 cannot interpret a CTA with a single tile beside others with two.
        ctas = unequal(tiles, least=2)
    return *size, ctas * plan.cluster


def _depth(plan: MatmulPlan) -> dict[str, object]:
    """Returns what is compared, and how."""
    test = plan.test
    integers, normal = "integers" in test.inputs, "normal" in test.inputs
    can_be_exact = test.exact and epilogue_test.can_be_exact(plan)
    on_integers = "exact" if can_be_exact else "close"
    return {
        "tests_integers": integers,
        "tests_normal": normal,
        "on_integers": on_integers,
        "compares_closely": not plan.epilogue and (normal or not test.exact),
        "gpu_inputs": "normal" if normal else "integers",
        "on_gpu": "close" if normal else on_integers,
        "has_gpu_marker": test.gpu_marker is not None,
        "gpu_marker": test.gpu_marker,
    }


def _imports(plan: MatmulPlan) -> str:
    """Returns the test's plain imports, sorted as linters want them."""
    modules = {
        plan.name: f"import {plan.name} as module",
        "jax": "import jax",
        "jax.numpy": "import jax.numpy as jnp",
        "numpy": "import numpy as np",
        "pytest": "import pytest",
    }
    return "\n".join(modules[name] for name in sorted(modules, key=str.lower))


def _tolerance(plan: MatmulPlan) -> tuple[str, str]:
    """Returns a reason and an expression in `expected`, `size` and `a`."""
    rtol, atol = plan.test.rtol, plan.test.atol
    relative = f"2.0**-{PRECISION[plan.out_dtype]}"
    relative_reason = f"Rounding the result to {plan.out_dtype}"
    other, other_reason = (
        f"2.0**-23 * np.sqrt({_k_of_a(plan)}) * size",
        "k float32 additions before that",
    )
    if plan.operand_dtype == "float32":
        # Each factor loses up to 2**-10 of itself, and so a product twice that.
        other, other_reason = "2.0**-9 * size", "the factors to tf32 before that"
    if plan.promote:
        of_a_part = promoted_error(plan.tile_k, plan.tile_k) * math.sqrt(plan.tile_k)
        other = f"{of_a_part:.2g} / np.sqrt({_k_of_a(plan)}) * size"
        other_reason = (
            f"before that a GPU adds the products of {plan.tile_k} of k with "
            f"{SUM_BITS} bits"
        )
    elif plan.operand_dtype in FLOAT8:
        other = (
            f"2.0**-{SUM_BITS} * (np.sqrt({_k_of_a(plan)}) / 64 + 1)"
            f" * (np.sqrt({_k_of_a(plan)}) * np.abs(expected) + 2 * size)"
        )
        other_reason = (
            f"before that a GPU adds products of 8-bit floats with {SUM_BITS} bits: it "
            "cuts off all sums of 32, and all products"
        )
    if rtol is not None:
        relative = repr(rtol)
        relative_reason = f"rtol = {rtol!r} by the spec"
    if atol is not None:
        other, other_reason = repr(atol), f"atol = {atol!r} by the spec"
    reason = f"{relative_reason}, and {other_reason}."
    return reason, f"{relative} * np.abs(expected) + {other}"


def _refusals(plan: MatmulPlan) -> list[tuple[str, str, str]]:
    """Returns shapes of A and B that a module refuses, and the message, as source."""
    m, n, k = plan.blocks

    def a(rows: int, depth: int) -> tuple[int, int]:
        return operand_shapes(plan.layout, rows, n, depth)[0]

    def b(columns: int, depth: int) -> tuple[int, int]:
        return operand_shapes(plan.layout, m, columns, depth)[1]

    rows: list[tuple[tuple[int, ...], tuple[int, ...], str]] = [
        ((m,), b(n, k), "a must have 2 dimensions"),
        (a(m, k), b(n, 2 * k), f"a and b must agree in k, got {k} and {2 * k}"),
    ]
    if plan.batched:
        message = "the leading dimensions of a and b must broadcast"
        rows.append(((2, *a(m, k)), (3, *b(n, k)), message))
    if not plan.any_edge:
        rows += [
            (a(size_m, size_k), b(size_n, size_k), message)
            for size_m, size_n, size_k, message in _no_multiples(m, n, k)
        ]
    return [(repr(of_a), repr(of_b), repr(text)) for of_a, of_b, text in rows]


def _no_multiples(m: int, n: int, k: int) -> list[tuple[int, int, int, str]]:
    """Returns sizes that are no multiples of a tile, and what is said of each."""
    return [
        (m - 8, n, k, f"m must be a positive multiple of {m}, got {m - 8}"),
        (m, 0, k, f"n must be a positive multiple of {n}, got 0"),
        (m, n, k // 2, f"k must be a positive multiple of {k}, got {k // 2}"),
    ]
