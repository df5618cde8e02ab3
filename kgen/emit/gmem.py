"""The refs in GMEM of what a kernel stores, and of what its epilogue reads."""

import dataclasses

from kgen.emit.epilogue_steps import FIRST_COLUMN, SAVED, in_kernel, reads_eights
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


def names(plan: MatmulPlan) -> list[str]:
    """Returns the names of what the epilogue of a piece is given beside it."""
    given = [ref.name for ref in argument_refs(plan)]
    return [*given, FIRST_COLUMN] if reads_eights(plan) else given


def outputs(plan: MatmulPlan) -> tuple[Ref, ...]:
    """Returns the refs of what the kernel stores."""
    if plan.differentiates_epilogue:
        return (Ref(OUTS, "mn"),)
    saved = in_kernel(plan) and saves(plan.epilogue)
    names = ["out_gmem", *([f"{SAVED}_gmem"] if saved else [])]
    return tuple(Ref(name, "mn") for name in names)


def whole(plan: MatmulPlan) -> str:
    """Returns all that a kernel stores, and all that its epilogue reads."""
    return ", ".join(ref.name for ref in (*outputs(plan), *refs(plan)))


def parts(plan: MatmulPlan, columns: str | None) -> list[str]:
    """Returns what the epilogue of a piece reads, in some of a tile's columns."""
    given = [ref.at(None, _sliced(plan, ref, columns)) for ref in refs(plan)]
    return [*given, _first_column(columns)] if reads_eights(plan) else given


def passed(
    plan: MatmulPlan,
    rows: str | None = None,
    columns: str | None = None,
    *,
    batch: str = "",
    of_tile: bool = False,
) -> str:
    """Returns the outputs and what the epilogue reads, in some rows and columns.

    Args:
      plan: The plan.
      rows: The rows; None for all.
      columns: The columns; None for all.
      batch: Index of the matrix of which they are, if there are several.
      of_tile: Whether they are those of a tile, not of a part of one.
    """
    if plan.differentiates_epilogue and (rows or columns):
        return f"*_at({OUTS}, {TERMS}, {rows or WHOLE}, {columns or WHOLE})"
    stored = [ref.at(rows, columns, batch) for ref in outputs(plan)]
    loaded = [
        Ref(f"_matrix({ref.name}, batch)", ref.axes) if batch else ref
        for ref in refs(plan)
    ]
    given = [ref.at(rows, _sliced(plan, ref, columns)) for ref in loaded]
    if reads_eights(plan):
        given.append(f"{columns}.start" if of_tile else _first_column(columns))
    return ", ".join([*stored, *given])


def _sliced(plan: MatmulPlan, ref: Ref, columns: str | None) -> str | None:
    """Returns the columns in which a ref goes down: none if it does as a whole."""
    return None if reads_eights(plan, ref.axes) else columns


def _first_column(columns: str | None) -> str:
    """Returns the first of some of a tile's columns, counted from the matrix's first."""
    return f"{FIRST_COLUMN} + {columns}.start" if columns else FIRST_COLUMN
