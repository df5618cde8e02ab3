"""The reference in docs/, written from the code so that it cannot drift.

`python -m kgen.docs` writes it; `python -m kgen.docs --check` exits with 1 where the
files differ from what it would write.
"""

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.errors import ExitCode

if TYPE_CHECKING:
    from kgen.spec_reference import TableOfKeys

DOCS_DIR = Path(__file__).resolve().parent.parent / "docs"


def build() -> dict[str, str]:
    """Returns the text of every generated page, by its file name."""
    return {
        "cli.md": cli_page(),
        "rules.md": rules_page(),
        "simulation.md": simulation_page(),
        "spec.md": spec_page(),
    }


def rules_page() -> str:
    """Returns the page of legality rules, from their registry."""
    from kgen.rule_groups import grouped
    from kgen.rules import all_rules, checked_on_about

    lines = [
        "# Rules",
        "",
        "What makes a spec or a kernel legal. `kgen rule CODE` prints the same.",
        "",
        checked_on_about(),
    ]
    for group, rules in grouped(all_rules()):
        lines += ["", f"## {group}"]
        for rule in rules:
            lines += ["", f"### {rule.code}: {_prose(rule.title)}", ""]
            lines += [_prose(rule.reason), ""]
            lines += ["Refused:", "", *_fenced(rule.bad, rule.language), ""]
            lines += ["Accepted:", "", *_fenced(rule.good, rule.language), ""]
            lines += [f"{rule.scope}. Source: {_prose(rule.source)}"]
    return _page(lines)


def spec_page() -> str:
    """Returns the page of the spec's tables and keys, from the model."""
    from kgen.spec.dispatch import DispatchSpec
    from kgen.spec.glu import GluSpec
    from kgen.spec.model import FORMAT
    from kgen.spec_reference import format_about, matrix_about, tables, tune_about

    lines = [
        "# The spec",
        "",
        "A spec is a TOML file. Every key but those marked *required* may be left out; "
        "where no default is shown, kgen decides.",
        "",
        "## format",
        "",
        _prose(format_about()),
        "",
        *_fenced(f"format = {FORMAT}", "toml"),
    ]
    for table in tables():
        lines += ["", f"## [{table.name}]", "", *_keys(table)]
    lines += _epilogue_lines()
    lines += ["", "## [matrix]", "", _prose(matrix_about()), ""]
    lines += _fenced(
        '[kernel]\nname = "bf16_128x{tile.n}"\nop = "matmul"\n\n'
        "[matrix]\ntile.n = [64, 128, 256]",
        "toml",
    )
    lines += ["", "## [tune]", "", _prose(tune_about()), ""]
    lines += _fenced(
        "[tune]\ntile.n = [128, 256]\npipeline.max_concurrent_steps = [3, 4]", "toml"
    )
    lines += ["", "## Gated linear units", ""]
    lines += [
        'A spec with `op = "glu"` has the same tables but for those that follow: see '
        "[Make a gated linear unit](how-to/glu.md)."
    ]
    for table in tables(GluSpec):
        if table not in tables():
            lines += [
                "",
                f"### [{table.name}] of a gated linear unit",
                "",
                *_keys(table),
            ]
    lines += ["", "## Dispatch modules", ""]
    lines += [
        'A spec with `op = "dispatch"` has other tables: see '
        "[Pick a kernel by the size](how-to/dispatch.md)."
    ]
    for table in tables(DispatchSpec):
        lines += ["", f"### [{table.name}]", "", *_keys(table)]
    return _page(lines)


def _epilogue_lines() -> list[str]:
    """Returns what `[[epilogue]]` is, and its steps with their formulas."""
    from kgen.epilogue.formulas import described
    from kgen.spec_reference import kinds

    lines = ["", "## [[epilogue]]", ""]
    lines += [
        "What is done to the accumulator before it is stored: a table for each step, in "
        "their order, all in float32. `x` is what the steps before have made. See "
        "[Fuse an epilogue](how-to/epilogues.md).",
        "",
    ]
    rows = (
        (
            f"`{kind.name}`",
            described(kind.name),
            kind.about,
            ", ".join(f"`{key.name}`" for key in kind.keys if key.name != "op"),
        )
        for kind in kinds("epilogue")
    )
    lines += _markdown_table(("op", "x becomes", "meaning", "keys"), rows)
    for kind in kinds("epilogue"):
        keys = dataclasses.replace(
            kind, keys=tuple(key for key in kind.keys if key.name != "op")
        )
        if keys.keys:
            lines += ["", f'### op = "{kind.name}"', "", *_keys(keys)]
    return lines


def _keys(table: "TableOfKeys") -> list[str]:
    """Returns what a table of a spec is, and its keys."""
    rows = (
        (
            f"`{key.name}`",
            key.values,
            "*required*" if key.required else _code(key.default),
            key.about,
        )
        for key in table.keys
    )
    heads = ("key", "value", "default", "meaning")
    return [_prose(table.about), "", *_markdown_table(heads, rows)]


def simulation_page() -> str:
    """Returns the page of what the level `simulate` models, from its registry."""
    from kgen.verify.simulate.gaps import GAPS, REFUSALS, UNSEEN

    lines = [
        "# Simulation",
        "",
        "The level `simulate` runs a kernel in JAX's GPU interpreter on the CPU. What "
        "that lacks, kgen adds; what neither models is `not simulated`, never passed.",
        "",
        "## What kgen adds",
        "",
        "A test of JAX's own interpreter fails as soon as it closes one of these gaps.",
        "",
    ]
    rows = ((gap.name, gap.jax, gap.kgen, gap.versions) for gap in GAPS)
    heads = ("operation", "JAX's own interpreter", "kgen's simulation", "JAX")
    lines += _markdown_table(heads, rows)
    lines += ["", "## What is not simulated", ""]
    lines += ["A kernel that uses one of these is told so:", ""]
    lines += [f"- {_prose(refusal)}" for refusal in REFUSALS]
    lines += ["", "So is one that uses what JAX's interpreter says it lacks."]
    lines += ["", "## What a simulation does not see", ""]
    lines += [f"- {_prose(limit)}" for limit in UNSEEN]
    return _page(lines)


def cli_page() -> str:
    """Returns the page of commands, from click."""
    from kgen.cli import EXIT_CODES, cli

    context = click.Context(cli, info_name="kgen")
    lines = ["# Commands"]
    for name in sorted(cli.list_commands(context)):
        command = cli.get_command(context, name)
        assert command is not None, f"{name} is listed"
        lines += ["", *_command_lines(name, command), *_json_lines(name)]
    # Its first lines keep click from filling the paragraph, and are its title.
    codes = EXIT_CODES.partition("Exit codes:\n")[2]
    lines += ["", "## Exit codes", "", *_fenced(textwrap.dedent(codes), "text")]
    lines += ["", "## Shell completion", ""]
    lines += ["Put the line of your shell into its start-up file:", ""]
    lines += _fenced(
        'eval "$(_KGEN_COMPLETE=bash_source kgen)"  # ~/.bashrc\n'
        'eval "$(_KGEN_COMPLETE=zsh_source kgen)"   # ~/.zshrc\n'
        "_KGEN_COMPLETE=fish_source kgen | source   # ~/.config/fish/config.fish",
        "sh",
    )
    return _page(lines)


def _command_lines(name: str, command: click.Command) -> list[str]:
    """Returns what a command does and takes.

    Put together here, since click words it differently from version to version.
    """
    options = [p for p in command.params if isinstance(p, click.Option)]
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    usage = ["kgen", name, *(["[OPTIONS]"] if options else [])]
    usage += [_argument(argument) for argument in arguments]
    lines = [f"## kgen {name}", "", *_fenced(" ".join(usage), "text"), ""]
    # \b keeps click from filling a paragraph; it is no text.
    lines += [inspect.cleandoc(command.help or "").replace("\b\n", "")]
    if options:
        rows = ((f"`{_option(option)}`", _meaning(option)) for option in options)
        lines += ["", *_markdown_table(("option", "meaning"), rows)]
    return lines


def _argument(argument: click.Argument) -> str:
    if argument.metavar:
        return argument.metavar
    name = (argument.name or "").upper()
    name = name if argument.required else f"[{name}]"
    return f"{name}..." if argument.nargs == -1 else name


def _option(option: click.Option) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return names
    if option.metavar:
        return f"{names} {option.metavar}"
    if isinstance(option.type, click.Choice):
        return f"{names} {'|'.join(map(str, option.type.choices))}"
    kind = "N" if isinstance(option.type, click.types.IntParamType) else "PATH"
    return f"{names} {kind}"


def _meaning(option: click.Option) -> str:
    parts = [option.help or ""]
    if option.required:
        parts.append("Required.")
    if isinstance(option.show_default, str):
        parts.append(f"Default: {option.show_default}.")
    elif option.show_default:
        parts.append(f"Default: `{option.default}`.")
    return " ".join(parts)


def _json_lines(name: str) -> list[str]:
    """Returns what the keys of a command's JSON mean."""
    from kgen.cli import doctor
    from kgen.cli import list as list_command
    from kgen.explain.fields import FIELDS

    heads = ("key", "meaning")
    if name == "explain":
        rows = [
            (f"`{group}.{key}`", field.about)
            for group, fields in FIELDS.items()
            for key, field in fields.items()
        ]
        about = (
            '`--format json` prints `{"variants": [...]}`, one object for each variant '
            "with the keys below. Rows of `layouts` are an array. A key that ends in a "
            "unit tells it; a `_ratio` is of one."
        )
        return ["", about, "", *_markdown_table(heads, rows)]
    if name == "list":
        about = '`--format json` prints `{"kernels": [...]}`, each with these keys.'
        return ["", about, "", *_meanings(list_command.FIELDS)]
    if name == "doctor":
        about = "`--format json` prints an object with these keys."
        return ["", about, "", *_meanings(doctor.FIELDS)]
    if name == "rule":
        about = (
            '`--format json` prints `{"rules": [...]}`, each with `code`, `title`, '
            "`reason`, `source`, `bad`, `good`, `checked_on` and `allowable`."
        )
        return ["", about]
    return []


def _meanings(fields: Mapping[str, str]) -> list[str]:
    rows = ((f"`{key}`", about) for key, about in fields.items())
    return _markdown_table(("key", "meaning"), rows)


def _markdown_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    heads = tuple(heads)
    return [_row(heads), _row("---" for _ in heads), *(_row(row) for row in rows)]


def _row(cells: Iterable[str]) -> str:
    escaped = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _fenced(text: str, language: str) -> list[str]:
    return [f"```{language}", text.strip("\n"), "```"]


def _code(text: str | None) -> str:
    return "" if text is None else f"`{text}`"


def _prose(text: str) -> str:
    return " ".join(text.split())


def _page(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    first, rest = text.split("\n", 1)
    note = "<!-- Written by `python -m kgen.docs`. -->"
    return re.sub(r"\n{3,}", "\n\n", f"{first}\n\n{note}\n{rest}") + "\n"


def differing(directory: Path) -> Iterator[str]:
    """Yields the pages in `directory` that are not what `build` returns."""
    for name, text in build().items():
        path = directory / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield name


def main(arguments: list[str]) -> int:
    """Writes the pages, or checks them; returns the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m kgen.docs [--check]", file=sys.stderr)
        return ExitCode.USAGE
    wrong = list(differing(DOCS_DIR))
    if arguments:
        for name in wrong:
            print(f"docs/{name} differs; run `python -m kgen.docs`", file=sys.stderr)
        return ExitCode.DIFFERS if wrong else ExitCode.OK
    DOCS_DIR.mkdir(exist_ok=True)
    for name, text in build().items():
        (DOCS_DIR / name).write_text(text, encoding="utf-8", newline="\n")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
