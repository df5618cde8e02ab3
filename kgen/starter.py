"""The text of a starter spec: every key, its default and what it means."""

import textwrap
from collections.abc import Mapping

from kgen.float8 import FLOAT8
from kgen.spec.glu import GluSpec
from kgen.spec.model import AnySpec, Spec
from kgen.spec.wording import write_value
from kgen.spec_reference import Key, epilogue_about, matrix_about, tables

_WIDTH = 88
MODELS: dict[str, type[AnySpec]] = {"matmul": Spec, "glu": GluSpec}
"""Operations that a starter spec can be written for, and the models of their specs."""
OF_GLU = ("float16", "bfloat16")
"""What the operands of a gated linear unit may be."""
# A gated linear unit has no other schedule.
_PERSISTENT = {"schedule.warp_specialized": True, "schedule.persistent": True}
EPILOGUE = (
    "# [[epilogue]]",
    '#   op = "bias"',
    "#",
    "# [[epilogue]]",
    '#   op = "gelu"',
)


def starter_spec(name: str, op: str, dtype: str | None, schema: str | None) -> str:
    """Returns the text of a spec that is valid as it is.

    Keys that keep their default are commented out.

    Args:
      name: Name of the kernel, an identifier.
      op: Operation, one of `MODELS`.
      dtype: Elements of the operands; None for the default.
      schema: Path of the JSON Schema, as an editor shall find it, or None.
    """
    given: dict[str, object] = {"kernel.name": name, "kernel.op": op}
    if op == "glu":
        given |= _PERSISTENT
    if dtype is not None:
        given |= {"dtypes.a": dtype, "dtypes.b": dtype}
    if dtype in ("float32", *FLOAT8):
        # wgmma transposes 16-bit operands only.
        given["kernel.layout"] = "nt"
    lines = [] if schema is None else [f"#:schema {schema}", ""]
    lines += _comment(
        "A key that is commented out has the value that is shown; where none is shown, "
        "kgen decides."
    )
    for table in tables(MODELS[op]):
        lines += ["", *_comment(table.about), f"[{table.name}]"]
        for index, key in enumerate(table.keys):
            lines += ([""] if index else []) + _key_lines(table.name, key, given)
    if op == "matmul":
        lines += ["", *_comment(epilogue_about()), *EPILOGUE]
    lines += ["", *_comment(matrix_about()), "# [matrix]", "# tile.n = [64, 128, 256]"]
    return "\n".join(lines) + "\n"


def _key_lines(table: str, key: Key, given: Mapping[str, object]) -> list[str]:
    """Returns the lines of one key: what it is, what it takes, its value."""
    dotted = f"{table}.{key.name}"
    if dotted in given:
        line = f"{key.name} = {write_value(given[dotted])}"
    elif key.required:
        raise LookupError(f"a starter spec needs a value for {dotted}")
    elif key.default is None:
        line = f"# {key.name} ="
    else:
        line = f"# {key.name} = {key.default}"
    return [*_comment(f"{key.about} ({key.values})"), line]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
        break_long_words=False,
    )
