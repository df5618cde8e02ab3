"""The refs in GMEM of what a kernel stores, and of what its epilogue reads."""

import dataclasses

from kgen.emit.epilogue_steps import SAVED, in_kernel
from kgen.epilogue.steps import saves, with_argument
from kgen.plan.model import MatmulPlan

OUTS, TERMS = "outs_gmem", "terms_gmem"
"""What a kernel stores and what its epilogue reads, where both differ from call to call."""
WHOLE = "slice(None)"


@dataclasses.dataclass(frozen=True)
class Ref:
    """A ref in GMEM that goes down to where a piece of the output is made.

    Attributes:
      name: Its name.
      axes: Dimensions of the output that it has: `m`, `n`, `mn` or none.
    """

    name: str
    axes: str

    def at(self, rows: str | None, columns: str | None, batch: str = "") -> str:
        """Returns the ref's part in some rows and columns of the output.

        Args:
          rows: The rows; None for all.
          columns: The columns; None for all.
          batch: Index of the matrix of which they are, if the ref has several.
        """
        whole = ":" if "m" in self.axes else ""
        m = (rows or whole) if "m" in self.axes else ""
        n = (columns or "") if "n" in self.axes else ""
        index = ", ".join(filter(None, [batch, m, n]))
        return self.name if index in ("", ":") else f"{self.name}.at[{index}]"


def refs(plan: MatmulPlan) -> tuple[Ref, ...]:
    """Returns the refs that the kernel has beside those of a plain product."""
    if plan.differentiates_epilogue:
        return (Ref(TERMS, ""),)
    return argument_refs(plan) if in_kernel(plan) else ()


def argument_refs(plan: MatmulPlan) -> tuple[Ref, ...]:
    """Returns a ref for every argument of the epilogue."""
    steps = with_argument(plan.epilogue)
    return tuple(Ref(f"{step.argument}_gmem", step.axes) for step in steps)


def outputs(plan: MatmulPlan) -> tuple[Ref, ...]:
    """Returns the refs of what the kernel stores."""
    if plan.differentiates_epilogue:
        return (Ref(OUTS, "mn"),)
    saved = in_kernel(plan) and saves(plan.epilogue)
    names = ["out_gmem", *([f"{SAVED}_gmem"] if saved else [])]
    return tuple(Ref(name, "mn") for name in names)


def passed(
    plan: MatmulPlan,
    rows: str | None = None,
    columns: str | None = None,
    *,
    batch: str = "",
) -> str:
    """Returns the outputs and what the epilogue reads, in some rows and columns."""
    if plan.differentiates_epilogue and (rows or columns):
        return f"*_at({OUTS}, {TERMS}, {rows or WHOLE}, {columns or WHOLE})"
    stored = [ref.at(rows, columns, batch) for ref in outputs(plan)]
    loaded = [
        Ref(f"_matrix({ref.name}, batch)", ref.axes) if batch else ref
        for ref in refs(plan)
    ]
    return ", ".join([*stored, *(ref.at(rows, columns) for ref in loaded)])
