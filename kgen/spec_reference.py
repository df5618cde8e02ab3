"""The keys of a spec, as the model tells them: for the docs and for starter specs."""

import dataclasses
from collections.abc import Iterator

from kgen.spec.keys import is_table
from kgen.spec.model import AnySpec, Spec
from kgen.spec.schema import Node, json_schema, spec_node
from kgen.spec.wording import describe, write_value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a table.

    Attributes:
      name: The key.
      values: What it takes, in words.
      required: Whether it must be given.
      default: Its default as TOML; None if it is simply left out.
      about: Its description.
    """

    name: str
    values: str
    required: bool
    default: str | None
    about: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOfKeys:
    """One table of a spec.

    Attributes:
      name: Dotted name, such as `transforms.a`.
      about: Its description.
      keys: In the order of the model, without the tables within.
    """

    name: str
    about: str
    keys: tuple[Key, ...]


def tables(model: type[AnySpec] = Spec) -> tuple[TableOfKeys, ...]:
    """Returns every table of a spec, a table before those within it.

    An array of tables is among them by a name such as `[bucket]`; one whose tables are
    told apart by their `op` is not: see `kinds`.
    """
    found: list[TableOfKeys] = []
    for name, node in spec_node(model)["properties"].items():
        if is_table(node):
            found += _tables(name, node)
        elif is_table(node.get("items", {})):
            found += _tables(f"[{name}]", node["items"])
    return tuple(found)


def kinds(name: str, model: type[AnySpec] = Spec) -> tuple[TableOfKeys, ...]:
    """Returns the tables that an array of tables may hold, by what their `op` says."""
    items = spec_node(model)["properties"][name]["items"]
    return tuple(
        table
        for option in items["anyOf"]
        for table in _tables(option["properties"]["op"]["const"], option)
    )


def format_about() -> str:
    """Returns the description of `format`."""
    about: str = spec_node()["properties"]["format"]["description"]
    return about


def epilogue_about() -> str:
    """Returns the description of `[[epilogue]]`."""
    about: str = spec_node()["properties"]["epilogue"]["description"]
    return about


def matrix_about() -> str:
    """Returns the description of `[matrix]`."""
    about: str = json_schema()["properties"]["matrix"]["description"]
    return about


def tune_about() -> str:
    """Returns the description of `[tune]`."""
    about: str = json_schema()["properties"]["tune"]["description"]
    return about


def _tables(name: str, node: Node) -> Iterator[TableOfKeys]:
    """Yields the table `name`, then the tables within it."""
    properties = node["properties"]
    inner = {key for key, child in properties.items() if child.get("type") == "object"}
    required = node.get("required", ())
    yield TableOfKeys(
        name=name,
        about=node["description"],
        keys=tuple(
            Key(
                name=key,
                values=describe(child),
                required=key in required,
                default=write_value(child["default"]) if "default" in child else None,
                about=child["description"],
            )
            for key, child in properties.items()
            if key not in inner
        ),
    )
    for key, child in properties.items():
        if key in inner:
            yield from _tables(f"{name}.{key}", child)
