"""`kgen schema`: the JSON Schema of what kgen reads and prints."""

import click

from kgen.cli._output import print_text


@click.command()
@click.argument("what", type=click.Choice(("spec", "verdicts")), default="spec")
def command(what: str) -> None:
    """Print the JSON Schema of a spec, for editors and for checks.

    `kgen schema verdicts` prints that of `kgen verify --format json`.
    """
    if what == "spec":
        from kgen.spec.schema import schema_text
    else:
        from kgen.verdicts import schema_text

    print_text(schema_text())
