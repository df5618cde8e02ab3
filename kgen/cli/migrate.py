"""`kgen migrate`: specs of an older format in the newest."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.cli import EXIT_CODES
from kgen.cli._options import PATH
from kgen.cli._output import print_problems, print_text
from kgen.cli._project import DEFAULT_SPECS, project_here

if TYPE_CHECKING:
    from kgen.spec.migrations import Migrated


@click.command(epilog=EXIT_CODES)
@click.argument("specs", nargs=-1, type=PATH)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a spec is older.")
@click.pass_context
def command(ctx: click.Context, specs: tuple[Path, ...], check: bool) -> None:
    """Rewrite SPECS of an older format: files, or directories of them.

    Without SPECS: those that the project file names, or else those in specs/. What has
    another name in the newest format is replaced, also what kgen refuses with a hint
    since other tools call it so: `stages`, `block_m`, `fp16`. Comments, order and layout
    stay as they are, and so does every file that needs no change.
    """
    from kgen.emit.write import Output, write
    from kgen.errors import ExitCode, KgenError, UsageError
    from kgen.spec.load import find_specs

    project = project_here()
    # Never those that kgen brings along: they are not the user's.
    places = specs or ((DEFAULT_SPECS,) if project is None else project.specs)
    if not specs and project is None and not DEFAULT_SPECS.exists():
        raise UsageError(
            f"there is no {DEFAULT_SPECS}/ here\n  hint: name them: kgen migrate SPECS"
        )
    code, changed, files = ExitCode.OK, 0, find_specs(places)
    for path in files:
        try:
            mark, found = _migrated(path)
            if not found.changes:
                continue
            if not check:
                write([Output(path=path, text=mark + found.text)], force=True)
        except KgenError as error:
            code = max(code, error.exit_code)
            print_problems(str(error))
            continue
        changed += 1
        lines = [f"{path}:{line}: {what}\n" for line, what in found.changes]
        print_text("".join(lines))
    if check and changed:
        code = max(code, ExitCode.DIFFERS)
    word = "would change" if check else "changed"
    print_text(f"{changed} of {len(files)} specs {word}.\n")
    ctx.exit(code)


def _migrated(path: Path) -> "tuple[str, Migrated]":
    """Returns a file's byte order mark, if it has one, and the rest migrated."""
    from kgen.spec.document import shown, text_of
    from kgen.spec.migrations import migrate

    name = shown(path)
    text = text_of(path, name)
    mark = "\ufeff" if path.read_bytes().startswith(b"\xef\xbb\xbf") else ""
    return mark, migrate(text, name)
