"""Findings about keys: what a table may hold, and what was probably meant."""

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from kgen.spec.locate import KeyPath
from kgen.spec.schema import Node, spec_node
from kgen.spec.wording import join_or, show, write_key

NAME: KeyPath = ("kernel", "name")
FORMAT_KEY: KeyPath = ("format",)
OP: KeyPath = ("kernel", "op")
DOC: KeyPath = ("kernel", "doc")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong with a document, before file and line are known.

    Attributes:
      path: The key that is wrong; for a missing one, where it should be.
      code: Code of the rule.
      message: What was found.
      allowed: What would be accepted, or None.
      hint: What to do next, or None.
      kind: Equal for findings that are one and the same to the user, although their
        messages differ between the variants of a `[matrix]`.
    """

    path: KeyPath
    code: str
    message: str
    allowed: str | None = None
    hint: str | None = None
    kind: str = ""


def node_at(path: Sequence[str | int], root: Node | None = None) -> Node | None:
    """Returns the schema of the key or array element at `path`; None if unknown.

    Args:
      path: The key.
      root: Schema of the whole spec; that of a matmul, if left out.
    """
    node: Node | None = spec_node() if root is None else root
    for part in path:
        node = _child(node, part) if node is not None else None
    return node


def _child(node: Node, part: str | int) -> Node | None:
    if isinstance(part, int) and part < len(node.get("elements", ())):
        return dict(node["elements"][part])
    for option in node.get("anyOf", [node]):
        child = (
            option.get("items")
            if isinstance(part, int)
            else option.get("properties", {}).get(part)
        )
        if child is not None:
            return dict(child)
    return None


def is_table(node: Node) -> bool:
    return node.get("type") == "object"


def of_data(root: Node, data: dict[str, Any]) -> Node:
    """Returns the schema with the tables of every array as their `op` says.

    An array may hold tables of several kinds, told apart by `op`. Where that is none of
    theirs, what is known is which there are.
    """
    changed = {}
    for key, node in root.get("properties", {}).items():
        items = node.get("items", {})
        if "anyOf" in items and all(map(is_table, items["anyOf"])):
            elements = data.get(key)
            known = elements if isinstance(elements, tuple) else ()
            changed[key] = {**node, "elements": [_kind(items, each) for each in known]}
    return {**root, "properties": {**root["properties"], **changed}}


def _kind(items: Node, data: Any) -> Node:
    """Returns the schema of one table among several kinds."""
    op = data.get("op") if isinstance(data, dict) else None
    kinds: dict[str, Node] = {
        option["properties"]["op"]["const"]: option for option in items["anyOf"]
    }
    if isinstance(op, str) and op in kinds:
        return kinds[op]
    ops = {"description": "The step.", "type": "string", "enum": [*kinds]}
    return {"type": "object", "properties": {"op": ops}, "required": ["op"]}


# What other tools call a key.
SYNONYMS: dict[str, KeyPath] = {
    "stages": ("pipeline", "max_concurrent_steps"),
    "num_stages": ("pipeline", "max_concurrent_steps"),
    "depth": ("pipeline", "max_concurrent_steps"),
    "dtype": ("dtypes", "a"),
    "out_dtype": ("dtypes", "out"),
    "acc": ("dtypes", "accumulator"),
    "block_m": ("tile", "m"),
    "block_n": ("tile", "n"),
    "block_k": ("tile", "k"),
    "tile_m": ("tile", "m"),
    "tile_n": ("tile", "n"),
    "tile_k": ("tile", "k"),
}


def closest(word: str, candidates: Sequence[str], *, cutoff: float = 0.6) -> str | None:
    """Returns the candidate that `word` is most likely a misspelling of.

    Args:
      word: What was written.
      candidates: What may have been meant.
      cutoff: How alike they must be, from 0 to 1.
    """
    folded = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=cutoff)
    return folded[matches[0]] if matches else None


def unknown_key(
    path: KeyPath, value: Any, *, root: Node, within: KeyPath = ()
) -> Finding:
    """Returns the finding about a key that the model lacks.

    Args:
      path: The key, as the model would name it.
      value: Its value.
      root: Schema of the spec.
      within: Where the model's keys are looked up in the document: `("matrix",)`,
        `("tune",)`, or empty for the document itself.
    """
    *table, key = path
    node = node_at(table, root)
    assert node is not None, "the table around the key is known"
    assert isinstance(key, str), "an array has no unknown elements"
    fields = [*node["properties"]]
    if not table:
        # None of these is there in a [matrix] or a [tune].
        fields = [*fields, "matrix", "tune"] if not within else fields[1:]
    shown = f"key {write_key(path)}" + (f" in [{write_key(within)}]" if within else "")
    if isinstance(value, dict) and not table and not within:
        shown = f"table [{write_key(path)}]"
    hint = _hint(path, fields, root, dotted=bool(within))
    return Finding(
        path=(*within, *path),
        code="KG003",
        message=f"unknown {shown}",
        allowed=", ".join(fields),
        hint=hint,
    )


def _hint(path: KeyPath, fields: list[str], root: Node, *, dotted: bool) -> str | None:
    """Returns what an unknown key was probably meant for.

    Args:
      path: The key.
      fields: Keys of the table that it stands in.
      root: Schema of the spec.
      dotted: Whether all keys stand in one table, as those of `[matrix]` do.
    """
    *table, key = path
    assert isinstance(key, str), "an array has no unknown elements"
    known = list(_all_paths(root))
    if any(key == write_key(home) for home in known if len(home) > 1):
        return f"write {key} without quotes"
    homes = _shallowest([home for home in known if home[-1] == key])
    if homes and not dotted:
        if len(homes[0]) == 1:
            return f"it is a table of its own: [{key}]"
        tables = [f"[{write_key(home[:-1])}]" for home in homes]
        return f"it belongs in {join_or(tables)}"
    if not homes and SYNONYMS.get(key) in known:
        homes = [SYNONYMS[key]]
    near = closest(key, fields)
    if not homes and near is not None:
        homes = [(*table, near)]
    if not homes:
        # A key of another table must be much alike: nothing else speaks for it.
        far = closest(key, [str(home[-1]) for home in known], cutoff=0.75)
        homes = _shallowest([home for home in known if home[-1] == far])
    if not homes:
        return None
    keys = [write_key(home) if dotted else _as_written(home, root) for home in homes]
    return f"did you mean {join_or(keys)}?"


def _shallowest(paths: list[KeyPath]) -> list[KeyPath]:
    depth = min(map(len, paths), default=0)
    return [path for path in paths if len(path) == depth]


def _as_written(path: KeyPath, root: Node) -> str:
    node = node_at(path, root)
    return f"[{write_key(path)}]" if node is None or is_table(node) else write_key(path)


def _all_paths(node: Node, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yields the path of every table and key of the model."""
    for key, child in node.get("properties", {}).items():
        yield (*path, key)
        yield from _all_paths(child, (*path, key))


def show_pair(path: Sequence[str | int], value: object) -> str:
    """Returns `key = value`, as TOML writes it."""
    return f"{write_key(path)} = {show(value)}"


def get(table: Any, path: KeyPath) -> Any:
    """Returns the value at `path` in a document, or None."""
    for part in path:
        if not isinstance(table, dict) or part not in table:
            return None
        table = table[part]
    return table


def set_value(table: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Sets the value at `path` in a document, unless a scalar is in the way."""
    *parents, last = path
    for part in parents:
        child = table.setdefault(str(part), {})
        if not isinstance(child, dict):
            return  # Validation tells that a table is expected there.
        table = child
    table[str(last)] = value
