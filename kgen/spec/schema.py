"""The JSON Schema of a spec file, derived from the model.

Editors take completion and hover texts from it; the loader takes from it what it says
is allowed.
"""

import copy
import functools
import json
from collections.abc import Sequence
from typing import Any

from kgen.spec.model import AnySpec, Spec

Node = dict[str, Any]

FILE_NAME = "kgen.schema.json"
"""Name of the file in `specs/` that ships the schema."""

DISPATCH_FILE_NAME = "kgen.dispatch.schema.json"
"""Name of the same for dispatch modules."""

GLU_FILE_NAME = "kgen.glu.schema.json"
"""Name of the same for gated linear units."""

FILE_NAMES = {
    "matmul": FILE_NAME,
    "dispatch": DISPATCH_FILE_NAME,
    "glu": GLU_FILE_NAME,
}
"""Names of the same by operation."""

FIXED_KEYS = ("name", "op")
"""Keys of `[kernel]` that `[matrix]` cannot set: the first is its pattern, the second
decides which keys there are."""

COMPUTED = (
    "format",
    "kernel",
    "dtypes",
    "bucket",
    "epilogue",
    "module",
    "scales",
    "shapes",
    "test",
    "verify",
)
"""Tables that say what is computed for whom, and how it is proven: `[tune]` cannot set
them."""

_MATRIX = (
    "Expands the file into a family of specs: one for every combination of the values,"
    " the first key varying slowest. `{tile.n}` in `kernel.name` and `kernel.doc` stands"
    " for the value of that key."
)
_TUNE = (
    "Values that `kgen tune` tries: every combination of them, where it is legal. What"
    " the other tables say is in force until `kgen tune --write` puts the winner there."
)


def schema_text(model: type[AnySpec] = Spec) -> str:
    """Returns the text of `kgen.schema.json`, or of the schema of another operation."""
    return json.dumps(json_schema(model), indent=2) + "\n"


def json_schema(model: type[AnySpec] = Spec) -> Node:
    """Returns the schema of a spec file, draft 2020-12, without references."""
    tables = copy.deepcopy(spec_node(model))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kgen spec",
        **tables,
        "properties": {
            **tables["properties"],
            "matrix": _matrix(tables),
            "tune": _tune(tables),
        },
    }


@functools.cache
def spec_node(model: type[AnySpec] = Spec) -> Node:
    """Returns the schema of a model alone: one variant, without `[matrix]`.

    TOML has no null, so a field that may be None is one that may be left out. The
    result is shared by all callers.
    """
    schema = model.model_json_schema()
    return _tidy(schema, schema["$defs"])


def with_operations(node: Node, names: Sequence[str]) -> Node:
    """Returns the schema of a spec whose operation may be any of these."""
    node = copy.deepcopy(node)
    op = node["properties"]["kernel"]["properties"]["op"]
    op.pop("const", None)
    op["enum"] = [*names]
    return node


def _tidy(node: Node, definitions: Node) -> Node:
    """Returns `node` with references resolved, and without null and made-up titles."""
    node = {**definitions.get(node.get("$ref", "").rpartition("/")[2], {}), **node}
    if node.get("type") == "object":
        node["properties"] = {
            key: _tidy(child, definitions) for key, child in node["properties"].items()
        }
        node.pop("default", None)  # Told key by key.
    if "items" in node:
        node["items"] = _tidy(node["items"], definitions)
    if "oneOf" in node:  # Tables that are told apart by one of their keys.
        node["anyOf"] = node.pop("oneOf")
        del node["discriminator"]
    if "anyOf" in node:
        options = [_tidy(option, definitions) for option in node.pop("anyOf")]
        options = [option for option in options if option != {"type": "null"}]
        node |= {"anyOf": options} if len(options) > 1 else options[0]
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    for noise in ("$defs", "$ref", "title"):
        node.pop(noise, None)
    if "default" in node and node["default"] is None:
        del node["default"]
    return node


def _matrix(node: Node) -> Node:
    """Returns the schema of `[matrix]`: `node`'s keys, with an array for each value."""
    matrix = {**_arrays(node), "description": _MATRIX, "minProperties": 1}
    for key in FIXED_KEYS:
        del matrix["properties"]["kernel"]["properties"][key]
    del matrix["properties"]["format"]  # One file has one format.
    return matrix


def _tune(node: Node) -> Node:
    """Returns the schema of `[tune]`: of the tables that say how a kernel works."""
    tune = {**_arrays(node), "description": _TUNE, "minProperties": 1}
    for key in COMPUTED:
        tune["properties"].pop(key, None)
    return tune


def _arrays(node: Node) -> Node:
    if node.get("type") == "object":
        return {
            "additionalProperties": False,
            "description": node["description"],
            "properties": {k: _arrays(v) for k, v in node["properties"].items()},
            "type": "object",
        }
    return {
        "description": node["description"],
        "items": {k: v for k, v in node.items() if k not in ("description", "default")},
        "minItems": 1,
        "type": "array",
        "uniqueItems": True,
    }
