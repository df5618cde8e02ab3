"""What the templates of `scale` place: words and literals, decided here."""

from kgen.arch import ARCHS
from kgen.emit.literals import docstring_text
from kgen_scale.planner import ScalePlan


def view(plan: ScalePlan) -> dict[str, object]:
    """Returns the values of the templates `scale` and `test_scale`."""
    arch = ARCHS[plan.arch]
    formula = f"y = {plan.alpha!r} * x in {plan.dtype}, element by element."
    return {
        "name": plan.name,
        "doc": docstring_text(plan.doc if plan.doc.strip() else formula),
        "arch": f"{arch.title} GPUs ({arch.name})",
        "compute_capability": arch.compute_capability,
        "dtype": plan.dtype,
        "alpha": repr(plan.alpha),
        "tile_m": plan.tile_m,
        "tile_n": plan.tile_n,
    }


def constants(plan: ScalePlan) -> dict[str, object]:
    """Returns the constants that a template may place but not change."""
    return {"TILE_M": plan.tile_m, "TILE_N": plan.tile_n, "ALPHA": plan.alpha}
