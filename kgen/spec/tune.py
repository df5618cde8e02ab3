"""`[tune]`: the values that `kgen tune` tries for keys of the schedule.

It stands beside what the spec says and changes nothing of the kernel: the values in the
other tables are those in force, and `kgen tune --write` puts the winner there.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from kgen.spec.keys import (
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
from kgen.spec.schema import COMPUTED, Node
from kgen.spec.validate import validate
from kgen.spec.wording import kind, show, write_key, write_value

TABLE = "tune"
MAX_CANDIDATES = 65_536


def without(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document without `[tune]`."""
    return {key: value for key, value in document.items() if key != TABLE}


def axes(document: dict[str, Any], root: Node) -> dict[KeyPath, tuple[Any, ...]]:
    """Returns the values of every key of a valid `[tune]`; none without the table.

    Args:
      document: A document as `tomllib` returns it, with tuples for arrays.
      root: Schema of the spec.
    """
    found: dict[KeyPath, tuple[Any, ...]] = {}
    _collect(document.get(TABLE, {}), (), root, found)
    return found


def _collect(
    table: dict[str, Any],
    within: KeyPath,
    root: Node,
    found: dict[KeyPath, tuple[Any, ...]],
) -> None:
    for key, value in table.items():
        path = (*within, key)
        node = node_at(path, root)
        if node is not None and is_table(node):
            _collect(value, path, root, found)
        else:
            found[path] = value


def findings(
    document: dict[str, Any],
    order: Sequence[KeyPath],
    model: type[AnySpec],
    root: Node,
) -> Iterator[Finding]:
    """Yields what is wrong with the `[tune]` of a document, if it has one.

    Args:
      document: A document as `tomllib` returns it, with tuples for arrays.
      order: The path of every key, in written order.
      model: What the spec must be.
      root: The model's schema.
    """
    if TABLE not in document:
        return
    table = document[TABLE]
    if not isinstance(table, dict) or not table:
        message = "[tune] is empty"
        if table != {}:
            message = f"{show_pair([TABLE], table)} is {kind(table)}, not a table"
        yield _finding((), message, hint="give it keys: tile.n = [128, 256]")
        return
    base = {k: v for k, v in without(document).items() if k != "matrix"}
    for path, values in _leaves(table, order, root):
        yield from _of_key(path, values, base, model, root)


def _leaves(
    table: dict[str, Any], order: Sequence[KeyPath], root: Node
) -> Iterator[tuple[KeyPath, Any]]:
    """Yields the keys that `[tune]` sets, in written order; of what is unknown the top."""
    hidden: set[KeyPath] = set()
    for path in (path[1:] for path in order if path[0] == TABLE):
        if not path or any(path[:end] in hidden for end in range(len(path))):
            continue
        value, node = get(table, path), node_at(path, root)
        if node is not None and is_table(node) and isinstance(value, dict):
            continue
        hidden.add(path)
        yield path, value


def _of_key(
    path: KeyPath, values: Any, base: dict[str, Any], model: type[AnySpec], root: Node
) -> Iterator[Finding]:
    """Yields what is wrong with one key of `[tune]`."""
    key, node = write_key(path), node_at(path, root)
    if node is None:
        yield unknown_key(path, values, root=root, within=(TABLE,))
    elif path[0] in COMPUTED:
        yield _finding(
            path,
            f"{key} cannot be tuned: it says what is computed, not how",
            hint="tune keys of how the kernel works, such as tile.n",
        )
    elif is_table(node):
        example = f"{key}.{next(iter(node['properties']))} = [...]"
        yield _finding(
            path, f"tune.{key} is a table, not a key", hint=f"name its keys: {example}"
        )
    elif not isinstance(values, tuple):
        yield _finding(
            path,
            f"tune.{key} = {show(values)} is {kind(values)}, an array of values is"
            " expected",
            hint=f"write [{show(values)}]",
        )
    elif not values:
        yield _finding(path, f"tune.{key} has no values")
    else:
        yield from _of_values(path, values, base, model, root)


def _of_values(
    path: KeyPath,
    values: tuple[Any, ...],
    base: dict[str, Any],
    model: type[AnySpec],
    root: Node,
) -> Iterator[Finding]:
    """Yields a finding for each value that the key does not take, or that is repeated."""
    written: set[str] = set()
    for index, value in enumerate(values):
        place = (TABLE, *path, index)
        text = write_value(value)
        if text in written:
            yield _finding(place[1:], f"tune.{write_key(path)} has {show(value)} twice")
            continue
        written.add(text)
        data = copy.deepcopy(base)
        set_value(data, path, value)
        for found in validate(data, model, root)[1]:
            if found.path[: len(path)] == path:
                yield Finding(
                    path=place,
                    code=found.code,
                    message=found.message,
                    allowed=found.allowed,
                    hint=found.hint,
                )


def _finding(
    path: KeyPath,
    message: str,
    *,
    allowed: str | None = None,
    hint: str | None = None,
) -> Finding:
    return Finding(
        path=(TABLE, *path), code="KG012", message=message, allowed=allowed, hint=hint
    )
