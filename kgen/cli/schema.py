"""`kgen schema`: the JSON Schema of a spec."""

import click

from kgen.cli._output import print_text


@click.command()
def command() -> None:
    """Print the JSON Schema of a spec, for editors and for checks."""
    from kgen.spec.schema import schema_text

    print_text(schema_text())
