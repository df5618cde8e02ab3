"""`[matrix]`: one file, a family of specs."""

import copy
import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from kgen.spec import placeholders
from kgen.spec.keys import (
    FORMAT_KEY,
    NAME,
    Finding,
    get,
    is_table,
    node_at,
    set_value,
    show_pair,
    unknown_key,
)
from kgen.spec.locate import KeyPath
from kgen.spec.model import AnySpec
from kgen.spec.schema import FIXED_KEYS, Node
from kgen.spec.wording import kind, show, write_key, write_value

MAX_VARIANTS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """One combination of the matrix's values.

    Attributes:
      data: The document with these values set, without `[matrix]`.
      settings: The value of each key of the matrix.
      sources: Where in the document each value is written.
    """

    data: dict[str, Any]
    settings: dict[KeyPath, Any]
    sources: dict[KeyPath, KeyPath]

    @property
    def label(self) -> str:
        return _label(self.settings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expansion:
    """A document, taken apart.

    Attributes:
      variants: At least one, the first key varying slowest. If the matrix itself is
        wrong, the one variant that its valid keys give first.
      findings: What is wrong with the matrix and the placeholders.
    """

    variants: tuple[Variant, ...]
    findings: tuple[Finding, ...]


def expand(document: dict[str, Any], order: Sequence[KeyPath], root: Node) -> Expansion:
    """Returns every variant of a document with a `[matrix]`.

    Args:
      document: A document as `tomllib` returns it, with tuples for arrays.
      order: The path of every key, in written order.
      root: Schema of the spec.
    """
    base = {key: value for key, value in document.items() if key != "matrix"}
    findings: list[Finding] = []
    axes: dict[KeyPath, tuple[Any, ...]] = {}
    for path, values in _leaves(document["matrix"], order, root, findings):
        found = _axis_finding(path, values, base, root)
        if found is None:
            axes[path] = values
        else:
            findings.append(found)
    total = math.prod(map(len, axes.values()))
    if total > MAX_VARIANTS:
        findings.append(
            _matrix_finding(
                (),
                f"[matrix] has {total} variants",
                allowed=f"at most {MAX_VARIANTS}",
                hint="split the file",
            )
        )
    if findings:
        axes = {path: values[:1] for path, values in axes.items()}
    variants = tuple(_variants(base, axes))
    if not findings:
        findings += placeholders.check(base, axes)
        for variant in variants:
            placeholders.fill(variant.data, variant.settings)
    return Expansion(variants=variants, findings=tuple(findings))


def _leaves(
    matrix: Any, order: Sequence[KeyPath], root: Node, findings: list[Finding]
) -> Iterator[tuple[KeyPath, Any]]:
    """Yields the keys of the model that `[matrix]` sets, in written order."""
    if not isinstance(matrix, dict) or not matrix:
        message = "[matrix] is empty" if matrix == {} else _not_a_table(matrix)
        findings.append(
            _matrix_finding((), message, hint="give it keys: tile.n = [64, 128]")
        )
        return
    hidden: set[KeyPath] = set()
    for path in (path[1:] for path in order if path[0] == "matrix"):
        if not path or any(path[:end] in hidden for end in range(len(path))):
            continue
        value = get(matrix, path)
        node = node_at(path, root)
        if node is None:
            unknown = unknown_key(path, value, root=root, within=("matrix",))
            findings.append(unknown)
        elif not (is_table(node) and isinstance(value, dict)):
            yield path, value
        else:
            continue
        hidden.add(path)


def _not_a_table(matrix: object) -> str:
    return f"{show_pair(['matrix'], matrix)} is {kind(matrix)}, a table is expected"


def _axis_finding(
    path: KeyPath, values: Any, base: dict[str, Any], root: Node
) -> Finding | None:
    """Returns why one key of the matrix is refused, or None."""
    key = write_key(path)
    node = node_at(path, root)
    assert node is not None, "unknown keys are told before"
    if path == FORMAT_KEY:
        return _matrix_finding(
            path, "format cannot be set by [matrix]", hint="write it above all tables"
        )
    if path in [("kernel", fixed) for fixed in FIXED_KEYS]:
        return _matrix_finding(
            path,
            f"{key} cannot be set by [matrix]",
            hint=(
                "put placeholders into it, such as {tile.n}"
                if path == NAME
                else "write a file for each operation"
            ),
        )
    if is_table(node):
        return _matrix_finding(
            path,
            f"matrix.{key} is a table, not a key",
            hint=f"name its keys: {key}.{next(iter(node['properties']))} = [...]",
        )
    if get(base, path) is not None:
        return _matrix_finding(
            path,
            f"{key} is set by [matrix] and also on its own, to"
            f" {show(get(base, path))}",
            hint="remove one of the two",
        )
    return _values_finding(path, values)


def _values_finding(path: KeyPath, values: Any) -> Finding | None:
    """Returns why what the matrix says about a key is no array of values, or None."""
    key = write_key(["matrix", *path])
    if not isinstance(values, tuple):
        return _matrix_finding(
            path,
            f"{key} = {show(values)} is {kind(values)}, an array of values is"
            " expected",
            hint=f"write [{show(values)}], or set it outside of [matrix]",
        )
    if not values:
        return _matrix_finding(path, f"{key} has no values")
    if len(values) > MAX_VARIANTS:
        # Told as the number of variants, and only then: each value is one at least.
        return None
    written: set[str] = set()
    for index, value in enumerate(values):
        text = write_value(value)
        if text in written:
            return _matrix_finding((*path, index), f"{key} has {show(value)} twice")
        written.add(text)
    return None


def _matrix_finding(
    path: KeyPath,
    message: str,
    *,
    allowed: str | None = None,
    hint: str | None = None,
) -> Finding:
    return Finding(
        path=("matrix", *path),
        code="KG009",
        message=message,
        allowed=allowed,
        hint=hint,
    )


def _variants(
    base: dict[str, Any], axes: dict[KeyPath, tuple[Any, ...]]
) -> Iterator[Variant]:
    for indices in itertools.product(*(range(len(values)) for values in axes.values())):
        data = copy.deepcopy(base)
        settings: dict[KeyPath, Any] = {}
        sources: dict[KeyPath, KeyPath] = {}
        for (path, values), index in zip(axes.items(), indices, strict=True):
            settings[path] = values[index]
            sources[path] = ("matrix", *path, index)
            set_value(data, path, values[index])
        yield Variant(data=data, settings=settings, sources=sources)


def same_names(variants: Sequence[tuple[Variant, AnySpec]]) -> Iterator[Finding]:
    """Yields a finding if variants would share a name, on the first that do."""
    families: dict[str, list[tuple[Variant, str]]] = {}
    for variant, spec in variants:
        name = spec.kernel.name
        families.setdefault(name.lower(), []).append((variant, name))
    shared = [family for family in families.values() if len(family) > 1]
    if not shared:
        return
    (first, name), (second, other) = shared[0][:2]
    named = f'would both be named "{name}"'
    if name != other:
        named = f'would be named "{name}" and "{other}", which differ only by case'
    count = sum(map(len, shared))
    more = f"; {count} variants in all share their name" if count > 2 else ""
    key = next(k for k, v in first.settings.items() if v != second.settings[k])
    yield Finding(
        path=NAME,
        code="KG008",
        message=f"the variants {first.label} and {second.label} {named}{more}",
        hint=f"put {{{write_key(key)}}} into kernel.name",
    )


def merge(
    found: Sequence[tuple[Variant, Sequence[Finding]]],
) -> Iterator[Finding]:
    """Yields each finding once, told for which variants it holds unless for all.

    Findings about a key of the matrix are placed at the value within the matrix.
    """
    groups: dict[tuple[Any, ...], list[tuple[Variant, Finding]]] = {}
    for variant, findings in found:
        for finding in findings:
            what = finding.kind or (finding.message, finding.allowed, finding.hint)
            key = (finding.path, finding.code, what)
            groups.setdefault(key, []).append((variant, finding))
    everything = [variant for variant, _ in found]
    for group in groups.values():
        variant, finding = group[0]
        label = ""
        one_text = len({finding.message for _, finding in group}) == 1
        if len(group) < len(everything) or not one_text:
            label = _condition([v for v, _ in group], everything, finding.path)
        yield dataclasses.replace(
            finding,
            path=_source(variant, finding.path),
            message=finding.message + label,
        )


def _condition(
    variants: Sequence[Variant], everything: Sequence[Variant], path: KeyPath
) -> str:
    """Returns the shortest text that says which variants these are."""
    first = variants[0].settings
    common = {
        key: value
        for key, value in first.items()
        if all(variant.settings[key] == value for variant in variants)
    }
    matching = [v for v in everything if common.items() <= v.settings.items()]
    if common and len(matching) == len(variants):
        itself = [path[:end] for end in range(len(path) + 1)]
        # If the message is about that very key, it tells the value already.
        named = len(common) == 1 and next(iter(common)) in itself
        return "" if named else f", for {_label(common)}"
    more = f" and {len(variants) - 1} more" if len(variants) > 1 else ""
    return f", for {_label(first)}{more}"


def _source(variant: Variant, path: KeyPath) -> KeyPath:
    for key, source in variant.sources.items():
        if path[: len(key)] == key:
            return (*source, *path[len(key) :])
    return path


def _label(settings: dict[KeyPath, Any]) -> str:
    return ", ".join(show_pair(path, value) for path, value in settings.items())
