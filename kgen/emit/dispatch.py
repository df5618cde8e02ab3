"""What the dispatch templates place."""

import itertools
import math

from kgen.emit import matmul, operands
from kgen.emit.literals import docstring_text
from kgen.layouts import COLUMN, is_transposed, operand_dims
from kgen.plan.dispatch import DispatchPlan, Kernel, Shape, is_multiple, natural

# What the kernels of one dispatch module have in common, as their own templates place it.
_COMMON = (
    "a_dims",
    "a_shape",
    "arch",
    "arithmetic",
    "b_dims",
    "b_shape",
    "compute_capability",
    "b_dtype",
    "dtype",
    "jax_range",
    "out_dims",
    "out_dtype",
    "product",
)
# What is multiplied in the interpreter: units along each axis, and sizes at the most.
COUNTS = (1, 2, 3)
MAX_SMALL = 4


def view(plan: DispatchPlan) -> dict[str, object]:
    """Returns the values of the templates `dispatch` and `test_dispatch`."""
    common = matmul.view(plan.needed[0])
    (m, n, k), *others = _least_units(plan)
    return {
        **{key: common[key] for key in _COMMON},
        "name": plan.name,
        "doc": docstring_text(plan.doc if plan.doc.strip() else _formula(plan)),
        "overview": docstring_text(_overview(others)),
        "unit_m": m,
        "unit_n": n,
        "unit_k": k,
        "imports": _imports(plan),
        "limits_m": any(kernel.max_m is not None for kernel in plan.kernels),
        "kernels": [(repr(k.name), _arguments(k)) for k in plan.kernels],
        "buckets": [(repr(b.shape), repr(b.kernel)) for b in plan.buckets],
        "allowed": _allowed(plan),
        **_of_test(plan),
    }


def _formula(plan: DispatchPlan) -> str:
    return (
        f"{operands.formula(plan)} in {matmul.dtypes(plan)}, by the kernel that suits the"
        " size."
    )


def _overview(others: list[Shape]) -> str:
    text = (
        "`choose(m, n, k)` says which kernel multiplies a size and why: the one that"
        " the table has for it, or else that of the nearest size in the table among"
        " the kernels that can do it."
    )
    units = " or ".join(map(str, others))
    return f"{text} Multiples of {units} will do, too." if units else text


def _imports(plan: DispatchPlan) -> str:
    modules = ["jax", *(kernel.name for kernel in plan.kernels)]
    return "\n".join(f"import {module}" for module in sorted(modules, key=natural))


def _arguments(kernel: Kernel) -> str:
    limit = "" if kernel.max_m is None else f", max_m={kernel.max_m:_}"
    return f"{kernel.name}.matmul, {kernel.units}{limit}"


def _least_units(plan: DispatchPlan) -> list[Shape]:
    """Returns what sizes must be multiples of for one kernel or another."""
    kept: list[Shape] = []
    for units in (kernel.units for kernel in plan.least_demanding()):
        if not any(is_multiple(units, other) for other in kept):
            kept.append(units)
    return kept


def _allowed(plan: DispatchPlan) -> list[str]:
    """Returns the lines of the message that tells what sizes the module takes."""
    *parts, last = map(str, plan.least_demanding())
    lines = [*(f"{part}, " for part in parts), f"or {last}" if parts else last]
    return [repr(line) for line in lines]


def _of_test(plan: DispatchPlan) -> dict[str, object]:
    modules = {
        plan.name: f"import {plan.name} as module",
        "jax": "import jax",
        "jax.numpy": "import jax.numpy as jnp",
        "numpy": "import numpy as np",
        "pytest": "import pytest",
    }
    m, n, k = _least_units(plan)[0]
    a_dims, b_dims = operand_dims(plan.layout)
    words = f"B as [{b_dims}]", f"A as [{a_dims}] and B as [{b_dims}]"
    return {
        "test_imports": "\n".join(modules[n] for n in sorted(modules, key=natural)),
        "small": repr(small_sizes(plan)),
        "b_words": words[is_transposed(plan.layout)[0]],
        "a_shape_literal": f"({a_dims})",
        "b_shape_literal": f"({b_dims})",
        "less_of_a": "a[:1]" if is_transposed(plan.layout)[0] else "a[:, :1]",
        "expected": operands.product(plan, "a", "b"),
        "returned_shape": ("size[1::-1]" if plan.out_order == COLUMN else "size[:2]"),
        "refused": repr([(m - 1, n, k), (m, 0, k), (m, n, k - 1)]),
    }


def small_sizes(plan: DispatchPlan) -> list[Shape]:
    """Returns sizes (m, n, k) that are quickly multiplied, whatever kernel does it.

    No two axes are alike if that can be, so that nothing is right by symmetry.
    """
    smallest = sorted({k.units for k in plan.kernels}, key=lambda u: (math.prod(u), u))
    ways = list(itertools.permutations(COUNTS))

    def sizes(units: Shape) -> Shape:
        made = [(units[0] * m, units[1] * n, units[2] * k) for m, n, k in ways]
        return max(made, key=lambda size: len(set(size)))

    return [sizes(units) for units in smallest[:MAX_SMALL]]
