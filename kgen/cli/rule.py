"""`kgen rule`: the legality rules."""

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from kgen.cli._output import format_option, print_json, print_tables, print_text

if TYPE_CHECKING:
    from kgen.rules import Rule


@click.command()
@click.argument("codes", metavar="[CODE]...", nargs=-1)
@format_option
def command(codes: tuple[str, ...], output_format: str) -> None:
    """Explain the rules called CODE, or list all of them.

    A code is what an error begins with, such as KG101; upper or lower case.
    """
    import dataclasses

    from kgen.rules import all_rules

    rules = all_rules()
    chosen = [_find(code, rules) for code in codes] or list(rules.values())
    if output_format == "json":
        print_json({"rules": [dataclasses.asdict(rule) for rule in chosen]})
    elif codes:
        print_text("\n".join(_explained(rule) for rule in chosen))
    else:
        _print_list(rules)


def _find(code: str, rules: "Mapping[str, Rule]") -> "Rule":
    from kgen.errors import UsageError
    from kgen.tables import printable

    rule = rules.get(code.upper())
    if rule is None:
        close = sorted(difflib.get_close_matches(code[:20].upper(), rules, n=3))
        hint = f"did you mean {' or '.join(close)}?" if close else "see `kgen rule`"
        raise UsageError(f"no rule is called {printable(code)}\n  hint: {hint}")
    return rule


def _explained(rule: "Rule") -> str:
    """Returns all that the registry knows about `rule`."""
    import textwrap

    def prose(text: str) -> str:
        return textwrap.fill(" ".join(text.split()), 80, break_on_hyphens=False)

    def example(text: str) -> str:
        return textwrap.indent(textwrap.dedent(text).strip("\n"), "  ")

    return "\n".join(
        [
            f"{rule.code}: {rule.title}",
            "",
            prose(rule.reason),
            "",
            "Refused:",
            example(rule.bad),
            "",
            "Accepted:",
            example(rule.good),
            "",
            prose(rule.scope),
            prose(f"Source: {rule.source}"),
            "",
        ]
    )


def _print_list(rules: "Mapping[str, Rule]") -> None:
    from kgen.rule_groups import grouped
    from kgen.tables import Table

    print_tables(
        [
            Table(
                title=group,
                columns=("code", "title"),
                rows=tuple((rule.code, rule.title) for rule in members),
            )
            for group, members in grouped(rules)
        ]
    )
