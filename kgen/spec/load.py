"""From spec files to validated specs, each with the place it came from."""

import hashlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kgen.errors import FileError, Problem, SpecError, UsageError
from kgen.spec import matrix
from kgen.spec.keys import NAME, Finding
from kgen.spec.locate import KeyPath, locate
from kgen.spec.matrix import Variant
from kgen.spec.model import Spec
from kgen.spec.source import SourcedSpec
from kgen.spec.validate import validate
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


def find_specs(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Returns the spec files that `paths` name.

    Args:
      paths: Files, taken as they are, and directories, which stand for every `*.toml`
        below them in alphabetical order. Symbolic links are followed. Hidden files and
        directories are left out.

    Raises:
      FileError: a path does not exist or a directory cannot be read.
      UsageError: a directory holds no spec, or no path is given.
    """
    if not paths:
        raise UsageError("no spec is given")
    found: dict[str, Path] = {}
    for path in paths:
        try:
            path.stat()
            files = list(_specs_below(path)) if path.is_dir() else [path]
        except (OSError, ValueError) as error:
            raise FileError(f"{_shown(path)}: {_reason(error)}") from None
        if not files:
            raise UsageError(f"{_shown(path)}: no specs (*.toml) in this directory")
        for file in files:
            found.setdefault(os.path.realpath(file), file)
    return tuple(found.values())


def _specs_below(directory: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    files: list[Path] = []
    seen: set[str] = set()
    # Links come after all that needs none: a file is found by its own path first.
    places = [directory]
    for place in places:
        for folder, subfolders, names in place.walk(on_error=fail):
            real = os.path.realpath(folder)
            if real in seen:  # Links may lead in circles.
                subfolders.clear()
                continue
            seen.add(real)
            subfolders[:] = sorted(n for n in subfolders if not n.startswith("."))
            visible = sorted(folder / n for n in names if not n.startswith("."))
            places += (path for path in visible if path.is_dir())
            files += (p for p in visible if p.suffix == ".toml" and not p.is_dir())
    yield from sorted(files)


def load_all(paths: Sequence[Path]) -> tuple[SourcedSpec, ...]:
    """Returns the specs of all files, in order.

    Args:
      paths: Spec files, as `find_specs` returns them.

    Raises:
      SpecError: a file is invalid or two specs have one name, with every problem of
        every file.
      FileError: a file cannot be read.
    """
    specs: list[SourcedSpec] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            specs += load_file(path)
        except SpecError as error:
            problems += error.problems
    problems += _same_names(specs)
    if problems:
        raise SpecError(tuple(problems))
    return tuple(specs)


def _same_names(specs: Sequence[SourcedSpec]) -> Iterator[Problem]:
    """Yields a problem for every spec whose name another file has taken before."""
    first_of: dict[str, SourcedSpec] = {}
    for spec in specs:
        first = first_of.setdefault(spec.name.lower(), spec)
        if first is spec:
            continue
        place = f"{first.path}:{first.line_of('kernel.name')}"
        taken = f"is also the name of {place}"
        if spec.name != first.name:
            taken = f'differs only by case from "{first.name}" of {place}'
        yield spec.problem(
            "kernel.name",
            "KG008",
            f'kernel.name = "{spec.name}" {taken}',
            hint="each name makes one file, on some systems whatever its case",
        )


def load_file(path: Path) -> tuple[SourcedSpec, ...]:
    """Returns the spec of one file; several, if it has a `[matrix]`.

    Raises:
      SpecError: the file is invalid, with every problem.
      FileError: the file cannot be read.
    """
    name = _shown(path)
    text = _text(path, name)
    document = _document(text, name)
    lines = locate(text)
    if "matrix" in document:
        expansion = matrix.expand(document, tuple(lines))
    else:
        variant = Variant(data=document, settings={}, sources={})
        expansion = matrix.Expansion(variants=(variant,), findings=())
    found = [(variant, *validate(variant.data)) for variant in expansion.variants]
    good = [(variant, spec) for variant, spec, _ in found if spec is not None]
    findings = [
        *expansion.findings,
        *matrix.merge([(variant, some) for variant, _, some in found]),
    ]
    if expansion.findings:
        # Placeholders are left in the name.
        findings = [f for f in findings if f.path != NAME or f.code != "KG007"]
    else:
        findings += matrix.same_names(good)
    if findings:
        problems = [_problem(finding, name, lines) for finding in findings]
        raise SpecError(tuple(sorted(problems, key=lambda p: p.line or 0)))
    return tuple(_sourced(spec, name, lines, variant) for variant, spec in good)


def _text(path: Path, name: str) -> str:
    """Returns the text of a file, without a byte order mark."""
    if not str(path).isprintable():
        # The name is told in comments of the generated files.
        raise _invalid(name, None, "KG002", "the file's name is not printable")
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or _OPEN.match(str(path))):
            # Opening a pipe waits for its other end, maybe for ever.
            raise FileError(f"{name}: not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise FileError(f"{name}: {_reason(error)}") from None
    if len(content) > MAX_BYTES:
        raise _invalid(name, None, "KG002", f"the file has more than {MAX_BYTES} bytes")
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{content[error.start]:02x} at offset {error.start} is not"
        raise _invalid(
            name, line, "KG002", f"{message} UTF-8", hint="save the file as UTF-8"
        ) from None


def _document(text: str, name: str) -> dict[str, Any]:
    """Returns the document as `tomllib` does, with tuples for arrays."""
    try:
        if _ENDLESS_KEY.search(text):
            # tomllib would take memory by the square of its length.
            raise RecursionError
        document = _frozen(tomllib.loads(text), 0)
    except RecursionError:
        raise _invalid(
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
        return _invalid(name, line, "KG001", "an integer has too many digits")
    line, place = int(match["line"] or 0), f"at column {match['column']}"
    if not line:  # At the end of the document.
        line, place = text.count("\n") + (not text.endswith("\n")), "at the end"
    # tomllib writes keys as tuples.
    what = re.sub(r"\((('[^']*',? ?)+)\)", _dotted, match["what"])
    hints = [hint for start, hint in _TOML_HINTS.items() if what.startswith(start)]
    return _invalid(
        name,
        line,
        "KG001",
        f"invalid TOML {place}: {what[:1].lower()}{what[1:]}",
        hint=hints[0] if hints else None,
    )


def _dotted(match: re.Match[str]) -> str:
    return write_key(re.findall("'([^']*)'", match[1]))


def _invalid(
    name: str, line: int | None, code: str, message: str, *, hint: str | None = None
) -> SpecError:
    problem = Problem(path=name, line=line, code=code, message=message, hint=hint)
    return SpecError((problem,))


def _problem(finding: Finding, name: str, lines: dict[KeyPath, int]) -> Problem:
    path = finding.path
    while path and path not in lines:
        path = path[:-1]
    return Problem(
        path=name,
        line=lines.get(path),
        code=finding.code,
        message=finding.message,
        allowed=finding.allowed,
        hint=finding.hint,
    )


def _sourced(
    spec: Spec, name: str, lines: dict[KeyPath, int], variant: Variant
) -> SourcedSpec:
    places = {path: line for path, line in lines.items() if path[0] != "matrix"}
    for key, source in variant.sources.items():
        for end in range(1, len(key)):
            places.setdefault(key[:end], lines[source])
        places[key] = lines[source]
    return SourcedSpec(
        spec=spec,
        path=name,
        lines={".".join(map(str, path)): line for path, line in places.items()},
        digest=_digest(spec),
        variant=variant.label if variant.settings else "",
    )


def _digest(spec: Spec) -> str:
    """Returns a digest of what a spec says, whatever its layout and its defaults."""
    said = spec.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _shown(path: Path) -> str:
    """Returns a path as the user named it, with what cannot be printed escaped."""
    text = str(path)
    return text if text.isprintable() else ascii(text)[1:-1]


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "not a path"
