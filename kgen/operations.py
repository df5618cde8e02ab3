"""The operations that kgen can make kernels of: its own, and those of plug-ins.

A package brings an operation by an entry point of the group `kgen.operations`, whose
name is the operation's and whose object is an `Operation`:

    [project.entry-points."kgen.operations"]
    scale = "kgen_scale:OPERATION"

Nothing of a package is imported before a spec says `op = "scale"`: a plug-in that is
broken breaks nothing else.
"""

import dataclasses
import functools
import hashlib
import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgen.errors import ExitCode, KgenError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgen.plan.base import Plan
    from kgen.spec.model import AnySpec
    from kgen.spec.source import SourcedSpec
    from kgen.verify.request import Request

    type Array = NDArray[Any]

GROUP = "kgen.operations"
# Where kgen's own are, written as an entry point is.
OWN = {
    "matmul": "kgen.matmul:OPERATION",
    "glu": "kgen.glu:OPERATION",
    "dispatch": "kgen.dispatch:OPERATION",
}
# What a prefix of templates may stand for beside operations.
RESERVED = frozenset({"kgen", "partials"})


class PluginError(KgenError):
    """A plug-in does not bring what it promises; its distribution is named.

    Attributes:
      message: What is wrong.
      hint: Where to look, or None.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\n  hint: {hint}")
        self.message = message
        self.hint = hint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation, from the spec to the proof.

    Attributes:
      name: What `kernel.op` says, an identifier. The templates are `NAME.py.jinja` and
        `test_NAME.py.jinja`; the module's public function has this name, too.
      spec: The model of its specs' tables: a subclass of `kgen.spec.model.AnySpec`.
      plan: Makes the plan of a spec. Raises `kgen.errors.SpecError` with every problem,
        each made by `SourcedSpec.problem`.
      view: Returns what the templates place; `name` and `doc` are among it.
      templates: Directory of the templates. Those of kgen are there too, and with the
        prefix `kgen/` whatever overrides them.
      request: Makes the request to the verifier of a plan and the module's text.
      reference: Computes what is right: takes the operands as float64 arrays, and the
        request's `parameters` by name; returns one float64 array. It runs in the worker
        process. None if the verifier knows the operation, as it knows `matmul`.
      reduction: Returns the number of products per element of the result, for the
        tolerance, from the operands' shapes; 1 for what works element by element.
      constants: Returns the constants of the module that templates may not change.
      needs: Returns the plans of the modules that the module imports from beside it, by
        `import NAME`.
    """

    name: str
    spec: "type[AnySpec]"
    plan: "Callable[[SourcedSpec], Plan]"
    view: Callable[[Any], dict[str, object]]
    templates: Path
    request: "Callable[[Any, str], Request]"
    reference: "Callable[..., Array] | None" = None
    reduction: Callable[[tuple[tuple[int, ...], ...]], int] = lambda _: 1
    constants: Callable[[Any], dict[str, object]] = lambda _: {}
    needs: "Callable[[Any], tuple[Plan, ...]]" = lambda _: ()


def names() -> tuple[str, ...]:
    """Returns what `kernel.op` may say: kgen's own operations, then those of plug-ins."""
    return tuple(dict.fromkeys((*OWN, *sorted(point.name for point in _points()))))


@functools.cache
def get(name: str) -> Operation:
    """Returns an operation; of a plug-in, whose code is imported for it.

    Raises:
      PluginError: the plug-in is broken, or two of them bring this operation.
      KeyError: there is no such operation.
    """
    if name in OWN:
        module, _, attribute = OWN[name].partition(":")
        own: Operation = getattr(importlib.import_module(module), attribute)
        return own
    points = [point for point in _points() if point.name == name]
    if not points:
        raise KeyError(name)
    if len(points) > 1:
        both = " and ".join(sorted(map(_distribution, points)))
        raise PluginError(
            f"the operation {name} is brought by {both}: keep one of them"
        )
    (point,) = points
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        raise _broken(point, _in_a_line(error)) from error
    fault = _fault(name, found)
    if fault is not None:
        raise _broken(point, fault)
    operation: Operation = found
    return operation


def call(operation: Operation, part: str, *arguments: object) -> Any:
    """Returns what a function of an operation returns.

    Raises:
      PluginError: it is a plug-in's and fails.
      KgenError: what it says itself of its arguments.
    """
    function: Callable[..., Any] = getattr(operation, part)
    if operation.name in OWN:
        return function(*arguments)
    try:
        return function(*arguments)
    except KgenError:
        raise
    except (Exception, SystemExit) as error:
        name = operation.name
        by = next((_distribution(p) for p in _points() if p.name == name), "a plug-in")
        raise PluginError(
            f"{part} of the operation {name}, which {by} brings, fails: "
            f"{_in_a_line(error)}"
        ) from error


def sources_digest(operation: Operation) -> str:
    """Returns a digest of the package that computes an operation's reference.

    A verdict is worth nothing any more when the reference has changed.
    """
    if operation.reference is None:
        return ""
    module = sys.modules[operation.reference.__module__.partition(".")[0]]
    directories = [Path(directory) for directory in getattr(module, "__path__", ())]
    files = [file for each in directories for file in sorted(each.rglob("*.py"))]
    digest = hashlib.sha256()
    for file in files or [Path(str(module.__file__))]:
        digest.update(file.name.encode() + b"\0")
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def _points() -> tuple[importlib.metadata.EntryPoint, ...]:
    """Returns the entry points of plug-ins; a name of kgen's own stays kgen's."""
    return _points_on(tuple(sys.path))


@functools.lru_cache(maxsize=1)
def _points_on(_path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Reads what every installed package says, so not again while the path is the same."""
    points = importlib.metadata.entry_points(group=GROUP)
    return tuple(point for point in points if point.name not in OWN)


def _distribution(point: importlib.metadata.EntryPoint) -> str:
    found = point.dist
    return "an unknown package" if found is None else f"{found.name} {found.version}"


def _broken(point: importlib.metadata.EntryPoint, fault: str) -> PluginError:
    return PluginError(
        f"the operation {point.name} of {_distribution(point)} cannot be used: {fault}",
        hint=f"its entry point is {point.value}",
    )


def _in_a_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _fault(name: str, found: object) -> str | None:
    """Returns why an object is no operation of this name; None if it is."""
    from kgen.spec.model import AnySpec

    if not isinstance(found, Operation):
        return f"it is no kgen.operations.Operation but a {type(found).__name__}"
    if found.name != name:
        return f"it calls itself {found.name!r}"
    if not name.isidentifier() or name in RESERVED or name.startswith("test_"):
        return "its name is no identifier, or reserved"
    spec: object = found.spec  # Whatever the package has put there.
    if not (isinstance(spec, type) and issubclass(spec, AnySpec)):
        return "its spec is no subclass of kgen.spec.model.AnySpec"
    for template in (f"{name}.py.jinja", f"test_{name}.py.jinja"):
        if not (found.templates / template).is_file():
            return f"the template {found.templates / template} is missing"
    return None
