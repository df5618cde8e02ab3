"""`kgen diff`: what changes from one spec to another, or from one kgen to another."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgen.cli import EXIT_CODES
from kgen.cli._options import PATH, templates_option
from kgen.cli._output import format_option, print_json, print_text
from kgen.cli._project import project_here, templates_of

if TYPE_CHECKING:
    from kgen.changes import Change, Difference


@click.command(epilog=EXIT_CODES)
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@templates_option
@format_option
@click.pass_context
def command(
    ctx: click.Context,
    a: Path,
    b: Path,
    templates: tuple[Path, ...],
    output_format: str,
) -> None:
    """Tell what changes from A to B, in the plan and in the text of the module.

    Both are specs, whose variants are matched by name; or one is a module that another
    version of kgen rendered, and the other its spec. Nothing is verified or written. As
    of diff, the exit code is 1 if there is a difference.

    \b
    kgen diff specs/fp16_128x128.toml specs/bf16_128x128.toml
    kgen diff generated/fp16_128x128.py specs/fp16_128x128.toml
    """
    from kgen.changes import compare

    found, alone = compare(a, b, templates_of(project_here(), templates))
    if output_format == "json":
        print_json({"differences": [*map(_json, found)], "unmatched": [*alone]})
    else:
        texts = [_text(each) for each in found]
        print_text("\n".join([*texts, *(f"{line}\n" for line in alone)]))
    ctx.exit(int(bool(alone) or not all(each.is_empty for each in found)))


def _json(difference: "Difference") -> dict[str, Any]:
    return {**dataclasses.asdict(difference), "equal": difference.is_empty}


def _text(difference: "Difference") -> str:
    heading = f"{difference.a} -> {difference.b}"
    if difference.is_empty:
        return f"{heading}: no difference\n"
    reason = f" ({difference.reason})" if difference.reason else ""
    count = len(difference.plan)
    figures = f"{count or 'no'} figure{'' if count == 1 else 's'} of the plan"
    lines = [f"{heading}: {figures} changed{reason}"]
    lines += [f"  {_words(change)}" for change in difference.plan]
    parts = ["\n".join(lines) + "\n"]
    for title, text in (("module", difference.text), ("test", difference.test)):
        parts += [f"\n{title}:\n{text}"] if text else []
    return "".join(parts)


def _words(change: "Change") -> str:
    about = f"  # {change.about}" if change.about else ""
    return f"{change.field}: {_shown(change.a)} -> {_shown(change.b)}{about}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
