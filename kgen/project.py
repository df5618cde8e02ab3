"""The project file: `kgen.toml` at a repository's top, or `[tool.kgen]` of its
`pyproject.toml`.

It says where specs, templates and modules lie, so that commands need no arguments, and
how `kgen vendor` writes into that repository. It is as strict as a spec. Every path in
it starts from its own directory.
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import pydantic

from kgen.emit.placement import Placement, header_fault, is_module_path
from kgen.errors import FileError, Problem, SpecError
from kgen.spec.document import document_of, invalid, shown, text_of
from kgen.spec.keys import closest, show_pair
from kgen.spec.locate import KeyPath, locate
from kgen.spec.model import Table
from kgen.spec.wording import kind, write_key

FILE = "kgen.toml"
PYPROJECT = "pyproject.toml"
_TOOL = ("tool", "kgen")

PathText = Annotated[str, pydantic.Field(min_length=1, max_length=4_096)]


class Vendor(Table):
    """How `kgen vendor` writes into this repository."""

    package: Annotated[str, pydantic.Field(max_length=200)] = ""
    """The package that the modules are imported from, such as `mylib.kernels`; none, if
    left out: `import NAME`. It does not decide where they lie: DEST does."""
    relative_imports: bool = False
    """Whether tests import their modules with `from .. import NAME`. DEST and its
    `tests` are then packages: an `__init__.py` that is missing is made."""
    header: Annotated[str, pydantic.Field(max_length=20_000)] = ""
    """Text that every file begins with, as comments: a licence, say."""
    header_file: PathText | None = None
    """A file with that text, instead of `header`."""
    specs: bool = False
    """Whether the specs are copied, too, into `specs` of DEST. The copies are then what
    `kgen vendor --check` and `--update` read."""


class ProjectFile(Table):
    """What a project file may say."""

    specs: tuple[PathText, ...] = ("specs",)
    """Spec files, and directories of them."""
    out: PathText = "generated"
    """Directory for the modules; their tests go to `tests` below it."""
    templates: tuple[PathText, ...] = ()
    """Directories of templates, which come before those that kgen brings along."""
    vendor: Vendor = Vendor()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Project:
    """A project file, its paths as seen from the current directory.

    Attributes:
      path: The file.
      specs: Spec files, and directories of them.
      names_specs: Whether the file names them; otherwise they need not be there.
      out: Directory for the modules.
      renders: Whether the file names specs or that directory; otherwise it may be there
        for `kgen vendor` alone.
      templates: Directories of templates; the first that has a name wins.
      placement: How vendored files are imported and begin.
      copies_specs: Whether `kgen vendor` copies the specs.
    """

    path: Path
    specs: tuple[Path, ...]
    names_specs: bool
    out: Path
    renders: bool
    templates: tuple[Path, ...]
    placement: Placement
    copies_specs: bool


def find_project(start: Path | None = None) -> Project | None:
    """Returns the project that a directory belongs to; None if it belongs to none.

    The nearest project file upwards counts. The top of a git repository ends the search.

    Args:
      start: The directory, which need not exist; the current one, if left out.

    Raises:
      SpecError: the file is invalid, with every problem, or both files are there.
      FileError: it cannot be read.
    """
    start = Path(os.path.realpath(start or Path()))
    for directory in (start, *start.parents):
        if (found := _project_in(directory)) is not None:
            return found
        if (directory / ".git").exists():
            break
    return None


def _project_in(directory: Path) -> Project | None:
    own, shared = directory / FILE, directory / PYPROJECT
    with_own = own.is_file()
    table, path, lines = _tool_table(shared) if shared.is_file() else (None, own, {})
    if with_own and table is not None:
        name = shown(_from_here(own))
        message = f"{PYPROJECT} beside it has [tool.kgen], too"
        raise invalid(name, None, "KG005", message, hint="keep one of them")
    if with_own:
        path = own
        text = text_of(own, shown(_from_here(own)))
        table = document_of(text, shown(_from_here(own)))
        lines = locate(text)
    return None if table is None else _project(path, table, lines)


def _tool_table(
    path: Path,
) -> tuple[dict[str, Any] | None, Path, dict[KeyPath, int]]:
    """Returns `[tool.kgen]` of a pyproject.toml, if it is there, and its keys' lines."""
    name = shown(_from_here(path))
    text = text_of(path, name)
    if "kgen" not in text:  # Whatever else is wrong there is no matter of kgen's.
        return None, path, {}
    tool = document_of(text, name).get("tool")
    table = tool.get("kgen") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        message = f"tool.kgen is {kind(table)}, a table is expected"
        line = locate(text).get(("tool", "kgen"))
        raise invalid(name, line, "KG004", message)
    lines = {k[2:]: line for k, line in locate(text).items() if k[:2] == _TOOL}
    return table, path, lines


def _project(
    path: Path, table: dict[str, Any], lines: Mapping[KeyPath, int]
) -> Project:
    prefix = _TOOL if path.name == PYPROJECT else ()
    tell = _Teller(shown(_from_here(path)), prefix, lines)
    try:
        file = ProjectFile.model_validate(table)
    except pydantic.ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        problems = dict.fromkeys(tell.of(table, detail) for detail in details)
        raise SpecError(tuple(sorted(problems, key=lambda p: p.line or 0))) from None
    problems_of_vendor = tuple(_vendor_problems(file.vendor, tell))
    if problems_of_vendor:
        raise SpecError(problems_of_vendor)
    root = path.parent
    placement = Placement(
        package=file.vendor.package,
        relative_imports=file.vendor.relative_imports,
        header=_header(file.vendor, root, tell),
    )
    return Project(
        path=_from_here(path),
        specs=tuple(_from_here(root / each) for each in file.specs),
        names_specs="specs" in file.model_fields_set,
        out=_from_here(root / file.out),
        renders=not file.model_fields_set.isdisjoint({"specs", "out"}),
        templates=tuple(_from_here(root / each) for each in file.templates),
        placement=placement,
        copies_specs=file.vendor.specs,
    )


def _vendor_problems(vendor: Vendor, tell: "_Teller") -> Iterator[Problem]:
    if vendor.package and not is_module_path(vendor.package):
        yield tell.problem(
            ("vendor", "package"),
            "KG005",
            f"{show_pair(('vendor', 'package'), vendor.package)} is not a package",
            allowed='identifiers between dots, such as "mylib.kernels"',
        )
    if vendor.header and vendor.header_file is not None:
        yield tell.problem(
            ("vendor", "header_file"),
            "KG005",
            "vendor.header and vendor.header_file are both given",
            hint="keep one of them",
        )
    elif fault := header_fault(vendor.header):
        yield tell.problem(("vendor", "header"), "KG005", f"vendor.header {fault}")


def _header(vendor: Vendor, root: Path, tell: "_Teller") -> str:
    if vendor.header_file is None:
        return vendor.header
    path = _from_here(root / vendor.header_file)
    try:
        text = text_of(path, shown(path))
    except (FileError, SpecError) as error:
        reason = str(error).partition(": ")[2].removeprefix("KG002 ").split("\n")[0]
        fault = f"cannot be read: {reason}"
    else:
        text = text.replace("\r\n", "\n")
        if (found := header_fault(text)) is None:
            return text
        fault = found
    key = ("vendor", "header_file")
    message = f"{show_pair(key, vendor.header_file)} {fault}"
    raise SpecError((tell.problem(key, "KG005", message),))


@dataclasses.dataclass(frozen=True)
class _Teller:
    """Makes problems of one project file.

    Attributes:
      name: The file, as the user knows it.
      prefix: Where its table stands in the document.
      lines: Lines of the table's keys.
    """

    name: str
    prefix: tuple[str, ...]
    lines: Mapping[KeyPath, int]

    def problem(
        self,
        key: KeyPath,
        code: str,
        message: str,
        *,
        allowed: str | None = None,
        hint: str | None = None,
    ) -> Problem:
        place = key
        while place and place not in self.lines:
            place = place[:-1]
        return Problem(
            path=self.name,
            line=self.lines.get(place),
            code=code,
            message=message,
            allowed=allowed,
            hint=hint,
        )

    def of(self, table: dict[str, Any], detail: Any) -> Problem:
        """Returns what pydantic found, in the words of a spec's problems."""
        key: KeyPath = detail["loc"]
        value: Any = table
        for part in key:
            value = value[part]
        if detail["type"] == "extra_forbidden":
            return self._unknown(key, value)
        if detail["type"] in _EXPECTED:
            found = f"{show_pair(key, value)} is {kind(value)}"
            expected = _EXPECTED[detail["type"]]
            hint = _in_brackets(detail["type"], value)
            message = f"{found}, {expected} is expected"
            return self.problem(key, "KG004", message, hint=hint)
        length = f"{write_key(key)} has {len(value)} characters"
        return self.problem(key, "KG005", length)

    def _unknown(self, key: KeyPath, value: Any) -> Problem:
        *table, name = key
        fields = Vendor.model_fields if table else ProjectFile.model_fields
        what = "table" if isinstance(value, dict) else "key"
        written = write_key((*self.prefix, *key))
        near = closest(str(name), [*fields])
        hint = None if near is None else f"did you mean {write_key([*table, near])}?"
        if near is None and not table and name in Vendor.model_fields:
            hint = f"it belongs in [{write_key((*self.prefix, 'vendor'))}]"
        return self.problem(
            key,
            "KG003",
            f"unknown {what} {f'[{written}]' if what == 'table' else written}",
            allowed=", ".join(fields),
            hint=hint,
        )


# What pydantic calls a refusal, and what was expected.
_EXPECTED = {
    "string_type": "a string",
    "bool_type": "a boolean",
    "tuple_type": "an array",
    "model_type": "a table",
}


def _in_brackets(error: str, value: Any) -> str | None:
    if error == "tuple_type" and isinstance(value, str):
        return f'write ["{value}"]' if re.fullmatch(r"[\w./-]+", value) else None
    return None


def _from_here(path: Path) -> Path:
    """Returns a path as seen from the current directory, if that is shorter."""
    relative = Path(os.path.relpath(path))
    return relative if len(str(relative)) < len(str(path)) else path
