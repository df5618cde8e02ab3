"""What the commands print with: text as tables, or JSON."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from kgen.streams import tell
from kgen.tables import Table, write_tables, write_text

type Command = Callable[..., None]


def format_option(command: Command) -> Command:
    """Adds `--format text|json` as the parameter `output_format`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        help="Tables to read, or JSON for programs.",
    )(command)


def print_tables(tables: Sequence[Table]) -> None:
    """Prints `tables` to standard output."""
    write_tables(tables, sys.stdout)


def print_text(text: str) -> None:
    """Prints `text` to standard output as it is."""
    write_text(text, sys.stdout)


def print_json(value: Any) -> None:
    """Prints `value` as JSON, its keys in the order given."""
    print_text(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_problems(text: str) -> None:
    """Prints what is wrong to standard error."""
    tell(text)
