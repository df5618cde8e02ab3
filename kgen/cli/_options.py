"""What several commands' options have in common."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kgen.report import Report


class _Named(click.Path):
    """A path. An empty one would be the current directory, and is a mistake in a shell.

    Whether it can be read is left to whoever reads it: that is no fault of the command
    line.
    """

    def __init__(self, *, dir_okay: bool = True, file_okay: bool = True) -> None:
        super().__init__(
            path_type=Path, readable=False, dir_okay=dir_okay, file_okay=file_okay
        )

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if value == "":
            self.fail("it is empty; write . for the current directory", param, ctx)
        return super().convert(value, param, ctx)


PATH = _Named()
FILE = _Named(dir_okay=False)
DIRECTORY = _Named(file_okay=False)


def templates_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--templates DIR`, which may be given several times."""
    return click.option(
        "--templates",
        metavar="DIR",
        multiple=True,
        type=PATH,
        help="Templates that override those of kgen, by name; of several directories "
        "the first that has a name wins.  [default: the project file's `templates`]",
    )(command)


def check_finite(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
    """Refuses infinity and NaN, which click takes for numbers."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number of seconds.")
    return value


def report_of(
    title: str, output_format: str, *, quiet: bool, verbose: bool = False
) -> "Report":
    """Returns the report of a command; `title` heads the job summary of GitHub."""
    if output_format == "github":
        from kgen.github import GithubReport

        return GithubReport(title, quiet=quiet)
    from kgen.report import Report

    return Report(quiet=quiet, verbose=verbose)
