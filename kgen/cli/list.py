"""`kgen list`: the specs of a catalogue."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgen.cli._options import PATH
from kgen.cli._output import (
    format_option,
    print_json,
    print_problems,
    print_tables,
)
from kgen.cli._project import project_here, specs_of

if TYPE_CHECKING:
    from kgen.errors import KgenError
    from kgen.plan.base import Plan

# What each key of `--format json` means, in the order of the keys.
FIELDS = {
    "name": "Name of the module.",
    "op": "Operation.",
    "a_dtype": "Elements of A.",
    "b_dtype": "Elements of B.",
    "out_dtype": "Elements of the result.",
    "layout": "`nn`, `nt`, `tn` or `tt`: how A and B lie in memory.",
    "tile_m": "Rows of the output tile of one CTA.",
    "tile_n": "Columns of the same.",
    "tile_k": "Depth of one pipeline step.",
    "max_concurrent_steps": "Slots of the SMEM ring.",
    "schedule": "`pipelined`, `warp_specialized` or `pallas_call`.",
    "arch": "GPU architecture, as ptxas names it.",
    "file": "The spec's file.",
}
_SHORT = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}


@click.command()
@click.argument("specs", nargs=-1, type=PATH)
@format_option
@click.pass_context
def command(ctx: click.Context, specs: tuple[Path, ...], output_format: str) -> None:
    """List the kernels that SPECS describe: files, or directories of them.

    Without SPECS: those that the project file names, or else those in specs/, or the
    catalogue that kgen brings along where there is neither. Invalid specs are told
    after the list.
    """
    places, notes = specs_of(project_here(), specs, catalogue=True)
    plans, errors = _plan_all(places)
    if output_format == "json":
        print_json({"kernels": [_figures(path, plan) for path, plan in plans]})
    else:
        _print_table(plans, "\n".join(notes))
    if errors:
        print_problems("\n".join(map(str, errors)))
        ctx.exit(max(error.exit_code for error in errors))


def _plan_all(
    places: tuple[Path, ...],
) -> "tuple[list[tuple[Path, Plan]], list[KgenError]]":
    """Plans every variant below `places`; returns (file, plan) pairs and errors."""
    from kgen.errors import KgenError
    from kgen.plan import make_plan
    from kgen.spec.load import find_specs, load_file

    plans: list[tuple[Path, Plan]] = []
    errors: list[KgenError] = []
    for path in find_specs(places):
        try:
            variants = load_file(path)
        except KgenError as error:
            errors.append(error)
            continue
        for variant in variants:
            try:
                plans.append((path, make_plan(variant)))
            except KgenError as error:
                errors.append(error)
    return plans, errors


def _figures(path: Path, plan: "Plan") -> dict[str, Any]:
    # The plan of a plug-in's operation may lack what a matmul's says.
    said = functools.partial(getattr, plan)
    return {
        "name": plan.name,
        "op": plan.op,
        "a_dtype": said("operand_dtype", None),
        "b_dtype": said("b_dtype", None),
        "out_dtype": said("out_dtype", None),
        "layout": said("layout", None),
        "tile_m": said("tile_m", None),
        "tile_n": said("tile_n", None),
        "tile_k": said("tile_k", None),
        "max_concurrent_steps": said("max_concurrent_steps", None),
        "schedule": said("schedule", None),
        "arch": plan.arch,
        "file": path.as_posix(),
    }


def _print_table(plans: list[tuple[Path, "Plan"]], note: str) -> None:
    from kgen.tables import Table

    rows = tuple(map(_row, (_figures(path, plan) for path, plan in plans)))
    print_tables(
        [
            Table(
                title="",
                columns=("name", "op", "dtypes", "tile", "stages", "schedule", "file"),
                rows=rows,
                right=frozenset({4}),
                note=note,
            )
        ]
    )


def _row(figures: dict[str, Any]) -> tuple[str, ...]:
    a, b, out = (
        _SHORT.get(figures[key], figures[key] or "-")
        for key in ("a_dtype", "b_dtype", "out_dtype")
    )
    tile = [str(figures[key]) for key in ("tile_m", "tile_n", "tile_k") if figures[key]]
    stages = figures["max_concurrent_steps"]
    return (
        figures["name"],
        figures["op"],
        f"{a} x {b} -> {out}" if figures["a_dtype"] else "-",
        "x".join(tile) or "-",
        "-" if stages is None else str(stages),
        figures["schedule"] or "-",
        figures["file"],
    )
