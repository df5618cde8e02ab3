"""What several commands' options have in common."""

import math

import click


def check_finite(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
    """Refuses infinity and NaN, which click takes for numbers."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number of seconds.")
    return value
