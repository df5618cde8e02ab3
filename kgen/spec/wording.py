"""Keys, values and expectations in TOML's own words."""

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TYPES = {
    "boolean": "a boolean",
    "integer": "an integer",
    "string": "a string",
    "array": "an array",
    "object": "a table",
}
# In this order: a bool is an int to Python, too.
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a float"),
    (str, "a string"),
    (dict, "a table"),
    (list, "an array"),
    (tuple, "an array"),
    (datetime.date, "a date"),
    (datetime.time, "a time"),
)
_MAX_SHOWN = 60


def kind(value: object) -> str:
    """Returns the type of a TOML value with its article, such as `an integer`."""
    items = value if isinstance(value, list | tuple) else ()
    if items and all(isinstance(item, dict) for item in items):
        return "an array of tables"
    return next(name for type_, name in _KINDS if isinstance(value, type_))


def write_value(value: object) -> str:
    """Returns `value` as TOML writes it, on one line."""
    match value:
        case bool():
            text = str(value).lower()
        case int():
            # Python refuses to write very long integers in decimal.
            text = str(value) if value.bit_length() < 4096 else hex(value)
        case float():
            text = str(value)  # Also nan, inf and -inf are written as in TOML.
        case str():
            text = f'"{"".join(map(_escape, value))}"'
        case dict():
            pairs = [f"{write_key([k])} = {write_value(v)}" for k, v in value.items()]
            text = f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            text = f"[{', '.join(map(write_value, value))}]"
        case datetime.date() | datetime.time():
            text = value.isoformat()
        case _:
            raise TypeError(f"{type(value)} is no TOML value")
    return text


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def show(value: object) -> str:
    """Returns `value` as TOML writes it, cut off if it is long."""
    text = write_value(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def write_key(path: Sequence[str | int]) -> str:
    """Returns a dotted key, with indices in brackets: `test.shapes[1][0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) else show(part)
            text += f".{key}" if text else key
    return text


def join_or(parts: Iterable[str]) -> str:
    """Returns `a, b or c`."""
    *head, last = parts
    return f"{', '.join(head)} or {last}" if head else last


def types(node: dict[str, Any]) -> list[str]:
    """Returns the types that a JSON Schema node accepts, each with its article."""
    if "anyOf" in node:
        return list(dict.fromkeys(t for option in node["anyOf"] for t in types(option)))
    if node["type"] == "number":
        return ["an integer", "a float"]
    if "items" in node and types(node["items"]) == ["a table"]:
        return ["an array of tables"]
    return [_TYPES[node["type"]]]


def describe(node: dict[str, Any]) -> str:
    """Returns what a JSON Schema node accepts, in words."""
    # An array comes last, since nothing can follow its "each ... or ..." clearly.
    return join_or(sorted(_alternatives(node), key=lambda t: t.startswith("an array")))


def _alternatives(node: dict[str, Any]) -> list[str]:
    if "anyOf" in node:
        if types(node) == ["a table"]:
            return ["a table with op"]
        return [text for option in node["anyOf"] for text in _alternatives(option)]
    if "const" in node or "enum" in node:
        return [show(value) for value in node.get("enum", [node.get("const")])]
    match node["type"]:
        case "boolean":
            return ["true", "false"]
        case "integer":
            text = f"an integer from {node['minimum']} to {node['maximum']}"
        case "number":
            text = f"a number {_range(node)}"
        case "string" if "examples" in node:
            text = f"a string such as {show(node['examples'][0])}"
        case "string":
            text = f"a string of at most {node['maxLength']} characters"
        case "object":
            text = f"a table with {' and '.join(node['required'])}"
        case "array":
            text = f"an array{_length(node)}, each {describe(node['items'])}"
        case other:
            raise TypeError(f"a value cannot be of type {other}")
    return [text]


def _range(node: dict[str, Any]) -> str:
    most = f"{node['maximum']:.7g}"
    if "exclusiveMinimum" in node:
        return f"above {node['exclusiveMinimum']:g} and at most {most}"
    return f"from {node['minimum']:.7g} to {most}"


def _length(node: dict[str, Any]) -> str:
    least, most = node.get("minItems", 0), node.get("maxItems")
    if most is None:
        return " of elements"
    if least == most:
        return f" of {most} elements"
    return f" of {f'{least} to' if least else 'at most'} {most} elements"


def accepts(node: dict[str, Any], value: object) -> bool:
    """Whether a scalar is what a JSON Schema node asks for."""
    if "anyOf" in node:
        return any(accepts(option, value) for option in node["anyOf"])
    if "enum" in node or "const" in node:
        allowed = node.get("enum", [node.get("const")])
        return any(type(value) is type(item) and value == item for item in allowed)
    if node["type"] == "integer" and type(value) is int:
        return bool(node["minimum"] <= value <= node["maximum"])
    return node["type"] == "boolean" and type(value) is bool
