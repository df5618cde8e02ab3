"""From spec files to validated specs, each with the place it came from."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kgen import __version__, denied, operations
from kgen.errors import FileError, Problem, SpecError, UsageError
from kgen.spec import matrix, tune
from kgen.spec.document import document_of, invalid, reason_of, shown, text_of
from kgen.spec.keys import FORMAT_KEY, NAME, OP, Finding, get
from kgen.spec.locate import KeyPath, locate
from kgen.spec.matrix import Variant
from kgen.spec.model import FORMAT, AnySpec, Spec, Test
from kgen.spec.schema import Node, spec_node, with_operations
from kgen.spec.source import SourcedSpec
from kgen.spec.validate import validate
from kgen.spec.wording import show


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
            # Of a directory below it, where that is what cannot be read.
            place = denied.place_of(error) if isinstance(error, OSError) else None
            raise FileError(f"{shown(place or path)}: {reason_of(error)}") from None
        if not files:
            raise UsageError(f"{shown(path)}: no specs (*.toml) in this directory")
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
    name = shown(path)
    text = text_of(path, name)
    document = document_of(text, name)
    lines = locate(text)
    _check_format(document, name, lines)
    model, root = _model_of(document, name, lines)
    of_tune = list(tune.findings(document, tuple(lines), model, root))
    document = tune.without(document)
    if "matrix" in document:
        expansion = matrix.expand(document, tuple(lines), root)
    else:
        variant = Variant(data=document, settings={}, sources={})
        expansion = matrix.Expansion(variants=(variant,), findings=())
    found = [
        (variant, *validate(variant.data, model, root))
        for variant in expansion.variants
    ]
    good = [(variant, spec) for variant, spec, _ in found if spec is not None]
    findings = [
        *of_tune,
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


def _check_format(
    document: dict[str, Any], name: str, lines: dict[KeyPath, int]
) -> None:
    """Refuses a document of another format than this kgen reads.

    Raises:
      SpecError: it is of another one, and what to do.
    """
    found = document.get("format")
    if not isinstance(found, int) or isinstance(found, bool) or found == FORMAT:
        return  # What is no integer is told by the model.
    age, hint = "older", f"kgen migrate {name}"
    if found > FORMAT:
        age, hint = "newer", "install a newer kgen"
    message = f"format = {show(found)} is {age} than kgen {__version__} reads: {FORMAT}"
    raise invalid(name, lines.get(FORMAT_KEY), "KG011", message, hint=hint)


def _model_of(
    document: dict[str, Any], name: str, lines: dict[KeyPath, int]
) -> tuple[type[AnySpec], Node]:
    """Returns the model of a document's operation, and its schema.

    Raises:
      SpecError: the operation is that of a plug-in which is broken.
    """
    op = get(document, OP)
    if op is None:
        return Spec, spec_node()
    names = operations.names()
    if op not in names:
        return Spec, with_operations(spec_node(), names)
    try:
        model = operations.get(op).spec
    except operations.PluginError as error:
        raise invalid(
            name, lines.get(OP), "KG005", error.message, hint=error.hint
        ) from error
    return model, spec_node(model)


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
    spec: AnySpec, name: str, lines: dict[KeyPath, int], variant: Variant
) -> SourcedSpec:
    apart = ("matrix", tune.TABLE)
    places = {path: line for path, line in lines.items() if path[0] not in apart}
    for key, source in variant.sources.items():
        for end in range(1, len(key)):
            places.setdefault(key[:end], lines[source])
        places[key] = lines[source]
    return SourcedSpec(
        spec=spec,
        path=name,
        lines={".".join(map(str, path)): line for path, line in places.items()},
        digest=_digest(_without_depth_of_test(spec)),
        test_digest=_digest(spec),
        variant=variant.label if variant.settings else "",
    )


def _without_depth_of_test(spec: AnySpec) -> AnySpec:
    """Returns a spec without what changes its standalone test and nothing else."""
    if not isinstance(spec, Spec):
        return spec
    return spec.model_copy(
        update={"test": Test(shapes=spec.test.shapes, batch=spec.test.batch)}
    )


def _digest(spec: AnySpec) -> str:
    """Returns a digest of what a spec says, whatever its layout and its defaults."""
    said = spec.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
