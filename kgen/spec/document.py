"""TOML files as text and as documents, and why one cannot be read."""

import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from kgen.errors import FileError, Problem, SpecError
from kgen.spec.wording import write_key

MAX_BYTES = 2**20
# No key of a spec is nested half as deeply; code that recurses relies on it.
MAX_DEPTH = 16

# What a shell has opened and hands over, such as <(command).
_OPEN = re.compile(r"/dev/(stdin$|fd/\d)")
# A part of a key, 100 times. Nothing else in a spec has so many dots between words.
_ENDLESS_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}"""
)
_TOML_PLACE = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)"
    r"|end of document)\)",
    re.DOTALL,
)
_TOML_HINTS = {
    "Invalid value": "strings stand in quotes; booleans are true and false",
    "Cannot overwrite a value": "a key is set once",
    "Cannot declare": "a table is written once",
    "Illegal character '\\n'": "a string ends on its line, unless in three quotes",
}


def text_of(path: Path, name: str) -> str:
    """Returns the text of a file, without a byte order mark.

    Args:
      path: The file.
      name: What it is called in messages.

    Raises:
      SpecError: it is no UTF-8 text of a decent size.
      FileError: it cannot be read.
    """
    if not str(path).isprintable():
        # The name is told in comments of the generated files.
        raise invalid(name, None, "KG002", "the file's name is not printable")
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or _OPEN.match(str(path))):
            # Opening a pipe waits for its other end, maybe for ever.
            raise FileError(f"{name}: not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise FileError(f"{name}: {reason_of(error)}") from None
    if len(content) > MAX_BYTES:
        raise invalid(name, None, "KG002", f"the file has more than {MAX_BYTES} bytes")
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{content[error.start]:02x} at offset {error.start} is not"
        raise invalid(
            name, line, "KG002", f"{message} UTF-8", hint="save the file as UTF-8"
        ) from None


def document_of(text: str, name: str) -> dict[str, Any]:
    """Returns the document as `tomllib` does, with tuples for arrays.

    Raises:
      SpecError: the text is not TOML.
    """
    try:
        if _ENDLESS_KEY.search(text):
            # tomllib would take memory by the square of its length.
            raise RecursionError
        document = _frozen(tomllib.loads(text), 0)
    except RecursionError:
        raise invalid(
            name, None, "KG001", "arrays or tables are nested too deeply"
        ) from None
    except ValueError as error:
        raise _toml_error(str(error), text, name) from None
    assert isinstance(document, dict), "a document is a table"
    return document


def _frozen(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        return {key: _frozen(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(item, depth + 1) for item in value)
    return value


def _toml_error(what: str, text: str, name: str) -> SpecError:
    """Returns what `tomllib` says, with its place where ours stands."""
    match = _TOML_PLACE.fullmatch(what)
    if match is None:
        # Said by `int`, not by tomllib.
        digits = re.search(r"[0-9_]{4000,}", text)
        line = text.count("\n", 0, digits.start()) + 1 if digits else None
        return invalid(name, line, "KG001", "an integer has too many digits")
    line, place = int(match["line"] or 0), f"at column {match['column']}"
    if not line:  # At the end of the document.
        line, place = text.count("\n") + (not text.endswith("\n")), "at the end"
    # tomllib writes keys as tuples.
    what = re.sub(r"\((('[^']*',? ?)+)\)", _dotted, match["what"])
    hints = [hint for start, hint in _TOML_HINTS.items() if what.startswith(start)]
    if name.endswith(".py"):
        hints = ["a spec is a TOML file; `kgen verify` and `kgen bench` take modules"]
    return invalid(
        name,
        line,
        "KG001",
        f"invalid TOML {place}: {what[:1].lower()}{what[1:]}",
        hint=hints[0] if hints else None,
    )


def _dotted(match: re.Match[str]) -> str:
    return write_key(re.findall("'([^']*)'", match[1]))


def invalid(
    name: str, line: int | None, code: str, message: str, *, hint: str | None = None
) -> SpecError:
    problem = Problem(path=name, line=line, code=code, message=message, hint=hint)
    return SpecError((problem,))


def shown(path: Path) -> str:
    """Returns a path as the user named it, with what cannot be printed escaped."""
    text = str(path)
    return text if text.isprintable() else ascii(text)[1:-1]


def reason_of(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "not a path"
