"""`kgen new`: a starter spec."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.cli._options import PATH
from kgen.cli._output import print_text

if TYPE_CHECKING:
    from kgen.emit.write import Output


def _has_starter(
    _context: click.Context, _parameter: click.Parameter, value: str
) -> str:
    """Lets through operations of which a starter spec is written."""
    import difflib

    from kgen import operations
    from kgen.starter import MODELS

    if value in MODELS:
        return value
    allowed = " or ".join(f'"{name}"' for name in MODELS)
    if value in operations.names():
        why = "a spec of this operation is written by hand"
        raise click.BadParameter(f"{value!r} is not {allowed}: {why}.")
    from kgen.spec.validate import ALIASES

    near = [ALIASES.get(value.lower(), ""), *difflib.get_close_matches(value, MODELS)]
    meant = next((name for name in near if name in MODELS), None)
    hint = f" Did you mean {meant!r}?" if meant else ""
    raise click.BadParameter(f"{value!r} is not {allowed}.{hint}")


def _one_of(*key: str) -> Callable[..., str | None]:
    """Returns a callback that lets through what the key of the spec takes."""

    def check(
        _context: click.Context, _parameter: click.Parameter, value: str | None
    ) -> str | None:
        # Asked of the model only when it is needed: `--help` does without it.
        from kgen.spec.keys import node_at
        from kgen.spec.validate import likely
        from kgen.spec.wording import accepts, describe

        if value is None:
            return None
        node = node_at(key)
        assert node is not None, f"{key} is a key of the spec"
        if not accepts(node, value):
            near = likely(node, value)
            hint = f" Did you mean {near!r}?" if near else ""
            raise click.BadParameter(f"{value!r} is not {describe(node)}.{hint}")
        return value

    return check


@click.command()
@click.argument("name")
@click.option(
    "--op",
    metavar="OP",
    callback=_has_starter,
    required=True,
    help="Operation: matmul or glu.",
)
@click.option(
    "--dtype",
    metavar="DTYPE",
    callback=_one_of("dtypes", "a"),
    help="Elements of the operands, such as float16; the model's default, if left out.",
)
@click.option(
    "--out",
    type=PATH,
    default=Path("specs"),
    show_default=True,
    help="Directory of the spec.",
)
@click.option("--force", is_flag=True, help="Overwrite a spec that is there already.")
def command(name: str, op: str, dtype: str | None, out: Path, force: bool) -> None:
    """Write a commented starter spec for a kernel called NAME.

    The spec holds every key with its default. The JSON Schema, from which editors take
    completion, is written beside it if it is not there yet.
    """
    from kgen.emit.write import Output, write
    from kgen.spec.schema import FILE_NAMES
    from kgen.starter import OF_GLU, starter_spec
    from kgen.tables import printable

    if op == "glu" and dtype not in (None, *OF_GLU):
        allowed = " or ".join(f'"{each}"' for each in OF_GLU)
        raise click.BadParameter(f"'--dtype' of a glu is {allowed}, not {dtype!r}.")
    _check_name(name, op, out)
    path = out / f"{name}.toml"
    if not force:
        _check_absent(path)
    text = starter_spec(name, op, dtype, f"./{FILE_NAMES[op]}")
    outputs = [Output(path=path, text=text), *_missing_schema(out, op)]
    write(outputs, force=force)
    for output in outputs:
        print_text(f"wrote {printable(str(output.path))}\n")


def _check_name(name: str, op: str, out: Path) -> None:
    """Refuses what the loader would refuse as `kernel.name`."""
    from kgen.errors import Problem, SpecError
    from kgen.spec.validate import validate
    from kgen.starter import MODELS
    from kgen.tables import printable

    _, findings = validate({"kernel": {"name": name, "op": op}}, MODELS[op])
    problems = tuple(
        Problem(
            path=printable(str(out / f"{name}.toml")),
            line=None,
            code=finding.code,
            message=finding.message,
            allowed=finding.allowed,
            hint=finding.hint,
        )
        for finding in findings
    )
    if problems:
        raise SpecError(problems)


def _check_absent(path: Path) -> None:
    import os

    from kgen.errors import FileError
    from kgen.tables import printable

    if os.path.lexists(path):
        raise FileError(
            f"{printable(str(path))} is there already\n"
            "  hint: give another name, or overwrite it with --force"
        )


def _missing_schema(out: Path, op: str) -> "list[Output]":
    """Returns the JSON Schema as an output if `out` has none; one there is kept."""
    import os

    from kgen.emit.write import Output
    from kgen.spec.schema import FILE_NAMES, schema_text
    from kgen.starter import MODELS

    path = out / FILE_NAMES[op]
    if os.path.lexists(path):
        return []
    return [Output(path=path, text=schema_text(MODELS[op]))]
