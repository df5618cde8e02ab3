"""`kgen explain`: the plan of a spec as tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgen.cli._options import PATH
from kgen.cli._output import format_option, print_json, print_tables

if TYPE_CHECKING:
    from kgen.plan.dispatch import DispatchPlan
    from kgen.spec.source import SourcedSpec
    from kgen.tables import Table


@click.command()
@click.argument("spec", type=PATH)
@click.option(
    "--shape",
    metavar="M,N,K",
    help="Sizes to explain; 64xM,N,K is a batch of 64. By default the largest of the "
    "spec's [test] shapes, else 4096,4096,4096 rounded up to the tile. Of a dispatch "
    "module it tells the kernel that is picked.",
)
@click.option(
    "--variant",
    metavar="NAME",
    help="Only this variant of a spec with a [matrix].",
)
@format_option
def command(
    spec: Path,
    shape: str | None,
    variant: str | None,
    output_format: str,
) -> None:
    """Show the plan of SPEC: tiles, SMEM, registers, and the roofline for a shape.

    Nothing is rendered, and no GPU is needed.
    """
    from kgen.explain import default_shape, explain
    from kgen.plan import make_plan
    from kgen.plan.dispatch import DispatchPlan
    from kgen.plan.fields import figures
    from kgen.plan.model import MatmulPlan
    from kgen.resources import here_or_shipped
    from kgen.shapes import read_batch, refuse_nothing
    from kgen.spec.load import load_file
    from kgen.spec.model import Spec

    batch, sizes = ((), None) if shape is None else read_batch(shape)
    refuse_nothing(shape or "", batch)
    (place,), notes = here_or_shipped([spec])
    for note in notes:
        click.echo(note, err=True)
    explained = []
    for sourced in _chosen(load_file(place), variant):
        plan = make_plan(sourced)
        if isinstance(plan, DispatchPlan) and sizes is not None:
            choice = _choice(plan, sizes, batch)
            explained.append({"plan": {**figures(plan), **choice}})
            continue
        if not (isinstance(plan, MatmulPlan) and isinstance(sourced.spec, Spec)):
            explained.append({"plan": figures(plan)})
            continue
        asked = sizes or default_shape(plan, sourced.spec.test.shapes)
        explained.append(explain(plan, asked, batch))
    if output_format == "json":
        print_json({"variants": explained})
    else:
        print_tables([table for each in explained for table in _tables(each)])


def _choice(
    plan: "DispatchPlan", shape: tuple[int, int, int], batch: tuple[int, ...]
) -> dict[str, object]:
    """Returns which kernel a dispatch module picks for a size, and for which bucket."""
    from kgen.errors import UsageError

    if batch:
        raise UsageError(
            f"{plan.name} takes no batch\n  allowed: M,N,K such as 4096,4096,4096"
        )
    bucket = plan.choose(shape)
    if bucket is None:
        raise UsageError(
            f"no kernel of {plan.name} can do --shape {','.join(map(str, shape))}\n"
            f"  allowed: multiples of {plan.allowed}"
        )
    return {
        "choice.shape": shape,
        "choice.kernel": bucket.kernel,
        "choice.bucket": bucket.shape,
        "choice.exact": bucket.shape == shape,
    }


def _tables(explained: dict[str, Any]) -> "tuple[Table, ...]":
    """Returns the tables of a plan; of a plug-in's operation, all that it says."""
    from kgen.explain import tables
    from kgen.tables import Table

    plan = explained.get("plan")
    if plan is None:
        return tables(explained)
    rows = tuple((key, str(value)) for key, value in plan.items() if key != "name")
    return (Table(title=plan["name"], columns=("", ""), rows=rows),)


def _chosen(
    variants: "tuple[SourcedSpec, ...]", name: str | None
) -> "tuple[SourcedSpec, ...]":
    """Returns the variant called `name`, or all of them."""
    from kgen.errors import UsageError

    if name is None:
        return variants
    chosen = tuple(variant for variant in variants if variant.name == name)
    if not chosen:
        names = ", ".join(variant.name for variant in variants)
        raise UsageError(f"no variant is called {name!r}\n  allowed: {names}")
    return chosen
