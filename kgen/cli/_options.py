"""What several commands' options have in common."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def templates_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--templates DIR`, which may be given several times."""
    return click.option(
        "--templates",
        metavar="DIR",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Templates that override those of kgen, by name; of several directories "
        "the first that has a name wins.  [default: the project file's `templates`]",
    )(command)


def check_finite(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
    """Refuses infinity and NaN, which click takes for numbers."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number of seconds.")
    return value
