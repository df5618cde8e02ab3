"""From a TOML document to a `Spec`, or to everything that is wrong with it.

pydantic decides what is valid. How a refusal is told is decided here, from the value
and the schema of its key: pydantic's own words speak of Python.
"""

import math
from typing import Any

import pydantic

from kgen.spec import names
from kgen.spec.allowed import allowed_findings
from kgen.spec.keys import (
    NAME,
    Finding,
    closest,
    get,
    is_table,
    node_at,
    of_data,
    show_pair,
    unknown_key,
)
from kgen.spec.locate import KeyPath
from kgen.spec.model import AnySpec, Spec
from kgen.spec.schema import Node, spec_node
from kgen.spec.wording import (
    accepts,
    describe,
    join_or,
    kind,
    show,
    types,
    write_key,
)

# Other people's names for values, far from ours in spelling.
ALIASES = {
    "f16": "float16",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "fp32": "float32",
    "tf32": "float32",
    "fp8": "float8_e4m3fn",
    "f8": "float8_e4m3fn",
    "float8": "float8_e4m3fn",
    "e4m3": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "fp8_e5m2": "float8_e5m2",
    "swish": "silu",
    "gemm": "matmul",
    "dot": "matmul",
    "hopper": "sm_90a",
    "sm_90": "sm_90a",
    "sm90": "sm_90a",
    "sm90a": "sm_90a",
}
# Faults of the key that tells the tables of an array apart, by pydantic's names.
_TAG_ERRORS = {
    "union_tag_invalid": "literal_error",
    "union_tag_not_found": "missing",
}


def validate(
    data: dict[str, Any], model: type[AnySpec] = Spec, root: Node | None = None
) -> tuple[AnySpec | None, tuple[Finding, ...]]:
    """Returns the spec that `data` holds, or None and why not.

    Args:
      data: One variant as `tomllib` returns it, with tuples for arrays and without
        `[matrix]`.
      model: What it must be.
      root: The model's schema, for messages.
    """
    root = spec_node(model) if root is None else root
    findings: dict[KeyPath, Finding] = {}
    name = _name_finding(data)
    for finding in (*([] if name is None else [name]), *allowed_findings(data)):
        findings[finding.path] = finding
    spec = None
    try:
        spec = model.model_validate(data)
    except pydantic.ValidationError as error:
        for detail in error.errors(include_url=False, include_context=False):
            kind_of_error, location = detail["type"], detail["loc"]
            if kind_of_error in _TAG_ERRORS:
                # Told of the table; what is wrong is the key that says which it is.
                kind_of_error, location = _TAG_ERRORS[kind_of_error], (*location, "op")
            path, value = _place(data, location, kind_of_error == "missing")
            narrowed = of_data(root, data)
            findings.setdefault(path, _finding(path, value, kind_of_error, narrowed))
    return spec if not findings else None, _outermost_removed(findings)


def _place(
    data: dict[str, Any], location: KeyPath, missing: bool
) -> tuple[KeyPath, Any]:
    """Returns the key that pydantic's `location` means, and its value.

    Among the keys and indices, a location also names the members of unions.
    """
    path: KeyPath = ()
    value: Any = data
    for part in location[: -1 if missing else None]:
        if isinstance(part, int) or (isinstance(value, dict) and part in value):
            path, value = (*path, part), value[part]
    return ((*path, location[-1]), None) if missing else (path, value)


def _outermost_removed(findings: dict[KeyPath, Finding]) -> tuple[Finding, ...]:
    """Drops what follows from a fault further inside.

    An array with one bad element is also told to be no "auto", and to be too short.
    """
    around = {path[:end] for path in findings for end in range(len(path))}
    return tuple(f for path, f in findings.items() if path not in around)


def _finding(path: KeyPath, value: Any, error: str, root: Node) -> Finding:
    if error == "missing":
        return _missing(path, root)
    node = node_at(path, root)
    if node is None:
        return unknown_key(path, value, root=root)
    expected = types(node)
    if kind(value) not in expected:
        return Finding(
            path=path,
            code="KG004",
            message=f"{show_pair(path, value)} is {kind(value)},"
            f" {join_or(expected)} is expected",
            allowed=None if is_table(node) else describe(node),
            hint=_other_type(path, node, value),
        )
    return Finding(
        path=path,
        code="KG005",
        message=_bad_value(path, node, value, error),
        allowed=describe(node),
        hint=_other_value(node, value),
    )


def _bad_value(path: KeyPath, node: Node, value: Any, error: str) -> str:
    if error == "string_too_long":
        return f"{write_key(path)} has {len(value)} characters"
    if error in ("too_short", "too_long"):
        plural = "" if len(value) == 1 else "s"
        return f"{show_pair(path, value)} has {len(value)} element{plural}"
    ranged = any("maximum" in option for option in node.get("anyOf", [node]))
    is_nan = isinstance(value, float) and math.isnan(value)
    if isinstance(value, int | float) and ranged and not is_nan:
        return f"{show_pair(path, value)} is out of range"
    return f"{show_pair(path, value)} is not allowed"


def _missing(path: KeyPath, root: Node) -> Finding:
    node = node_at(path, root)
    assert node is not None, "what is missing is known"
    if is_table(node):
        return Finding(
            path=path,
            code="KG006",
            message=f"[{write_key(path)}] is missing",
            hint=f"begin the file with [{write_key(path)}] and, below it, "
            + " and ".join(_example(key, child) for key, child in _required(node)),
        )
    if types(node) == ["an array of tables"]:
        return Finding(
            path=path,
            code="KG006",
            message=f"[[{write_key(path)}]] is missing",
            hint=f"add [[{write_key(path)}]] and, below it, "
            + " and ".join(_example(k, child) for k, child in _required(node["items"])),
        )
    return Finding(
        path=path,
        code="KG006",
        message=f"{write_key(path)} is missing",
        hint=f"add {_example(str(path[-1]), node)} to {_table(path[:-1])}",
    )


def _table(path: KeyPath) -> str:
    """Returns how a table is begun, such as `[tile]`, or which one of an array."""
    if path and isinstance(path[-1], int):
        return f"this [[{write_key(path[:-1])}]]"
    return f"[{write_key(path)}]"


def _required(node: Node) -> list[tuple[str, Node]]:
    return [(key, node["properties"][key]) for key in node["required"]]


def _example(key: str, node: Node) -> str:
    if node.get("type") == "array":
        return f"{key} = [...]"
    if "a string" not in types(node):
        return f"{key} = ..."
    return f"{key} = {show(node.get('const', '...'))}"


def _other_type(path: KeyPath, node: Node, value: Any) -> str | None:
    """Returns a hint if the value was meant well but written as another type."""
    if kind(value) == "an array of tables" and is_table(node):
        return f"write [{write_key(path)}] with single brackets, and once"
    if kind(value) == "a table" and types(node) == ["an array of tables"]:
        return f"write [[{write_key(path)}]] with double brackets"
    meant = _reread(value)
    if meant is not None and accepts(node, meant):
        return f"write {show(meant)}"
    return None


def _reread(value: Any) -> Any:
    """Returns what else a scalar may have been meant as, or None."""
    match value:
        case str() if value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
        case "true" | "false":
            return value == "true"
        case float() if value.is_integer():
            return int(value)
        case 0 | 1:
            return bool(value)
        case (only,):
            return only
    return None


def _other_value(node: Node, value: Any) -> str | None:
    """Returns a hint at an allowed value that resembles this one."""
    meant = _reread(value)
    if meant is not None and accepts(node, meant):
        return f"write {show(meant)}"
    near = likely(node, value) if isinstance(value, str) else None
    return None if near is None else f"did you mean {show(near)}?"


def likely(node: Node, word: str) -> str | None:
    """Returns the value of `node` that `word` most likely means, or None."""
    options = [item for option in node.get("anyOf", [node]) for item in _words(option)]
    near = ALIASES.get(word.lower())
    return near if near in options else closest(word, options)


def _words(node: Node) -> list[str]:
    values = node.get("enum", [node["const"]] if "const" in node else [])
    return [value for value in values if isinstance(value, str)]


def _name_finding(data: dict[str, Any]) -> Finding | None:
    """Returns what is wrong with `kernel.name`, if it is a string at all."""
    name = get(data, NAME)
    fault = names.name_fault(name) if isinstance(name, str) else None
    if fault is None:
        return None
    hint = None
    if "{" in name:
        hint = "a placeholder such as {tile.n} needs a [matrix] that sets its key"
    elif fault.suggestion is not None:
        hint = f'did you mean "{fault.suggestion}"?'
    return Finding(
        path=NAME,
        code="KG007",
        message=f"{show_pair(NAME, name)} {fault.reason}",
        allowed=fault.allowed,
        hint=hint,
        kind=fault.reason,
    )
