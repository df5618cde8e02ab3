"""What changes between two specs, or between a module and what its spec yields now."""

import ast
import dataclasses
import difflib
import inspect
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from kgen import operations
from kgen.emit import provenance
from kgen.emit.checks import assigned
from kgen.emit.placement import PLAIN, Placement, place
from kgen.emit.render import render
from kgen.errors import FileError, UsageError
from kgen.plan import make_plan
from kgen.plan.base import Plan
from kgen.plan.fields import figures
from kgen.spec.load import load_file

_ATTRIBUTE = re.compile(r"^ {2,6}(\w+): (.+(?:\n {8,}.+)*)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """One figure that differs.

    Attributes:
      field: Its dotted name in the plan, or its constant in the module.
      a: Its value on the first side; None if there is no such figure.
      b: The same on the second side.
      about: What it is; empty if nothing says so.
    """

    field: str
    a: object
    b: object
    about: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """How two kernels differ.

    Attributes:
      a: What the first is called.
      b: What the second is called.
      reason: Why the texts differ, as far as their headers tell; else empty.
      plan: The figures that differ.
      text: Unified diff of the modules.
      test: Unified diff of their standalone tests; empty if one side has none.
    """

    a: str
    b: str
    reason: str
    plan: tuple[Change, ...]
    text: str
    test: str

    @property
    def is_empty(self) -> bool:
        return not (self.plan or self.text or self.test)


def compare(
    a: Path, b: Path, templates: tuple[Path, ...] = ()
) -> tuple[tuple[Difference, ...], tuple[str, ...]]:
    """Returns the differences of two specs, or of a module and a spec.

    The variants of a `[matrix]` are matched by their names.

    Args:
      a: A spec, or a module that some kgen wrote.
      b: The same; not both are modules.
      templates: Directories whose templates come before the shipped ones.

    Returns:
      The pairs that were compared, and the kernels that only one side has.

    Raises:
      UsageError: two modules are given, or a module that no variant makes.
      SpecError: a spec is invalid.
      FileError: a file cannot be read.
    """
    modules = [path for path in (a, b) if path.suffix == ".py"]
    if len(modules) == 2:
        raise UsageError(
            "two modules are given; their plans are not known\n"
            "  hint: give the spec of one of them, or use diff"
        )
    if modules:
        return (_with_module(a, b, templates),), ()
    plans_a, plans_b = _plans(a), _plans(b)
    if len(plans_a) == len(plans_b) == 1:
        pairs = list(zip(plans_a.values(), plans_b.values(), strict=True))
        alone: list[str] = []
    else:
        pairs = [(plans_a[name], plans_b[name]) for name in plans_a if name in plans_b]
        alone = [f"{name} is in {a} alone" for name in plans_a if name not in plans_b]
        alone += [f"{name} is in {b} alone" for name in plans_b if name not in plans_a]
    found = tuple(_of_plans(a, b, *pair, templates=templates) for pair in pairs)
    return found, tuple(alone)


def _plans(path: Path) -> dict[str, Plan]:
    return {spec.name: make_plan(spec) for spec in load_file(path)}


def _of_plans(
    path_a: Path, path_b: Path, a: Plan, b: Plan, *, templates: tuple[Path, ...]
) -> Difference:
    # Where a spec lies, and how it is written, is no difference between kernels.
    origin = {
        name: getattr(a, name) for name in ("spec_path", "spec_digest", "test_digest")
    }
    module_a = render(a, templates=templates, verified=False, prove=False)
    module_b = render(
        dataclasses.replace(b, **origin),
        templates=templates,
        verified=False,
        prove=False,
    )
    name_a, name_b = f"{path_a} ({a.name})", f"{path_b} ({b.name})"
    return Difference(
        a=name_a,
        b=name_b,
        reason="",
        plan=tuple(_changes(figures(a), figures(b), _about(a) | _about(b))),
        text=_unified(module_a.source, module_b.source, name_a, name_b),
        test=_unified(module_a.test_source, module_b.test_source, name_a, name_b),
    )


def _with_module(a: Path, b: Path, templates: tuple[Path, ...]) -> Difference:
    """Compares a module with what a spec yields by this kgen."""
    module, spec = (a, b) if a.suffix == ".py" else (b, a)
    text = _read(module)
    plans = _plans(spec)
    plan = next(iter(plans.values())) if len(plans) == 1 else plans.get(module.stem)
    if plan is None:
        raise UsageError(
            f"no variant of {spec} is called {module.stem}, as {module} is\n"
            f"  allowed: {', '.join(plans)}"
        )
    found = provenance.read(text)
    verified = found is not None and found.verified
    rendered = render(plan, templates=templates, verified=verified, prove=False)
    new = place(rendered, _placement_of(module)).source
    constants = operations.call(operations.get(plan.op), "constants", plan)
    said = _constants(text, constants.keys())
    says = {name: constants[name] for name in said}
    values, texts = (said, says), (provenance.normalise(text), new)
    names = str(module), f"{spec} ({plan.name})"
    if module is not a:
        values, texts, names = values[::-1], texts[::-1], names[::-1]
    reason = provenance.explain_difference(text, new) if text != new else None
    return Difference(
        a=names[0],
        b=names[1],
        reason=reason or "",
        plan=tuple(_changes(*values, {})),
        text=_unified(*texts, *names),
        test="",
    )


def _placement_of(module: Path) -> Placement:
    """Returns how the text of a module is placed: as `kgen vendor` does it, or plainly."""
    from kgen.vendor import lockfile
    from kgen.vendor.place import open_place

    if not (module.parent / lockfile.FILE).exists():
        return PLAIN
    return open_place(module.parent).placement


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is not UTF-8 text") from None


def _constants(text: str, names: Collection[str]) -> dict[str, object]:
    """Returns the literals of those constants that a module assigns."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return {}  # A merge conflict, say. The text tells.
    pairs = [pair for statement in body for pair in assigned(statement)]
    return {name: value for name, value in pairs if name in names}


def _changes(
    a: dict[str, object], b: dict[str, object], about: dict[str, str]
) -> Iterator[Change]:
    for field in dict.fromkeys((*a, *b)):
        if a.get(field) != b.get(field):
            told = about.get(field.rpartition(".")[2], "")
            yield Change(field=field, a=a.get(field), b=b.get(field), about=told)


def _about(plan: Plan) -> dict[str, str]:
    """Returns what each figure is, from the docstrings of the plan's classes."""
    found: dict[str, str] = {}
    kinds = [type(plan), *(type(getattr(plan, f)) for f in plan.__dataclass_fields__)]
    for value in (getattr(plan, name) for name in plan.__dataclass_fields__):
        parts = [getattr(value, n, None) for n in getattr(value, "__dict__", {})]
        for part in (value, *parts):
            kinds += [type(each) for each in part] if isinstance(part, tuple) else []
    for kind in dict.fromkeys(kinds):
        for parent in reversed(kind.__mro__):
            if dataclasses.is_dataclass(parent):
                found |= {
                    name: " ".join(text.split())
                    for name, text in _ATTRIBUTE.findall(inspect.getdoc(parent) or "")
                    if name not in found or parent is type(plan)
                }
    return found


def _unified(old: str, new: str, old_name: str, new_name: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        old_name,
        new_name,
    )
    return "".join(lines)
