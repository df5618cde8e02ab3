"""`kgen schema`: the JSON Schema of what kgen reads and prints."""

from typing import TYPE_CHECKING

import click

from kgen.cli._output import print_text

if TYPE_CHECKING:
    from kgen.spec.model import AnySpec


@click.command()
@click.argument(
    "what", type=click.Choice(("spec", "verdicts", "bench")), default="spec"
)
@click.option(
    "--op", metavar="OP", help="The specs of which operation.  [default: matmul]"
)
def command(what: str, op: str | None) -> None:
    """Print the JSON Schema of a spec, for editors and for checks.

    `kgen schema verdicts` prints that of `kgen verify --format json`, and `kgen schema
    bench` that of `kgen bench --json`.
    """
    if what == "spec":
        from kgen.spec.schema import schema_text

        print_text(schema_text() if op is None else schema_text(_model(op)))
        return
    if op is not None:
        raise click.UsageError("--op goes with the schema of a spec.")
    if what == "bench":
        from kgen.measure import results

        print_text(results.schema_text())
        return
    from kgen import verdicts

    print_text(verdicts.schema_text())


def _model(op: str) -> "type[AnySpec]":
    from kgen import operations

    try:
        return operations.get(op).spec
    except KeyError:
        known = ", ".join(operations.names())
        raise click.BadParameter(f"{op!r} is not one of {known}") from None
