"""The shipped JSON Schema says what the model says."""

import json
import tomllib
from pathlib import Path

import pytest

from kgen.spec.dispatch import DispatchSpec
from kgen.spec.glu import GluSpec
from kgen.spec.model import Spec, Table
from kgen.spec.schema import (
    COMPUTED,
    DISPATCH_FILE_NAME,
    FILE_NAME,
    FIXED_KEYS,
    GLU_FILE_NAME,
    json_schema,
    schema_text,
)

SPECS = Path(__file__).parents[2] / "specs"


def table_of(annotation):
    is_table = isinstance(annotation, type) and issubclass(annotation, Table)
    return annotation if is_table else None


def model_paths(table=Spec, path=()):
    for key, field in table.model_fields.items():
        yield (*path, key)
        if inner := table_of(field.annotation):
            yield from model_paths(inner, (*path, key))


def schema_paths(node, path=()):
    for key, child in node.get("properties", {}).items():
        yield (*path, key)
        yield from schema_paths(child, (*path, key))


def document_paths(table, path=()):
    for key, value in table.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from document_paths(value, (*path, key))


def nodes(value):
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from nodes(child)
    elif isinstance(value, list):
        for child in value:
            yield from nodes(child)


def test_shipped_schema_is_up_to_date():
    assert (SPECS / FILE_NAME).read_text("utf-8") == schema_text()


def test_shipped_schema_of_dispatch_modules_is_up_to_date():
    text = (SPECS / DISPATCH_FILE_NAME).read_text("utf-8")
    assert text == schema_text(DispatchSpec)
    assert (SPECS / GLU_FILE_NAME).read_text("utf-8") == schema_text(GluSpec)


def test_a_bucket_is_described_and_closed():
    buckets = json_schema(DispatchSpec)["properties"]["bucket"]
    assert (buckets["minItems"], buckets["items"]["required"]) == (
        1,
        ["kernel", "shapes"],
    )
    assert buckets["items"]["additionalProperties"] is False
    assert all(key["description"] for key in buckets["items"]["properties"].values())


def test_schema_has_exactly_the_keys_of_the_model():
    model = set(model_paths())
    fixed = {("kernel", key) for key in FIXED_KEYS} | {("format",)}
    matrix = {("matrix", *path) for path in model - fixed}
    tune = {("tune", *path) for path in model if path[0] not in COMPUTED}
    apart = {("matrix",), ("tune",)}
    assert set(schema_paths(json_schema())) == model | apart | matrix | tune


def test_every_key_is_described():
    for path in schema_paths(json_schema()):
        node = json_schema()
        for key in path:
            node = node["properties"][key]
        assert node["description"].strip(), path


def test_tables_are_closed_and_nothing_is_null():
    for node in nodes(json_schema()):
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
        assert node.get("type") != "null"
        assert "$ref" not in node


def test_matrix_holds_arrays_of_what_the_key_holds():
    properties = json_schema()["properties"]
    matrix = properties["matrix"]["properties"]
    assert matrix["tile"]["properties"]["n"] == {
        "description": "Columns of the output tile.",
        "items": {"maximum": 65536, "minimum": 1, "type": "integer"},
        "minItems": 1,
        "type": "array",
        "uniqueItems": True,
    }
    assert matrix["test"]["properties"]["shapes"]["items"]["type"] == "array"


def test_head():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "kgen spec"
    assert "$id" not in schema
    assert schema["required"] == ["kernel"]
    assert json.loads(schema_text()) == schema
    assert schema_text().endswith("}\n")


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_specs_name_the_schema_and_use_its_keys(path):
    text = path.read_text("utf-8")
    assert text.startswith(f"#:schema ./{FILE_NAME}\n")
    assert set(document_paths(tomllib.loads(text))) <= set(schema_paths(json_schema()))
