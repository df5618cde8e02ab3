"""Puts values into a spec's text, token by token: comments and layout stay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgen.emit.write import Output, locked, make_directory, write
from kgen.errors import FileError
from kgen.spec.edit import edited, leaves, said, whole_lines
from kgen.spec.locate import KeyPath, Spans, spans
from kgen.spec.wording import write_key, write_value
from kgen.tune.candidate import Value

type Edit = tuple[int, int, str]

MARK = b"\xef\xbb\xbf"


class ByHandError(FileError):
    """A spec is written so that a program cannot put values into it."""


def rewritten(text: str, values: Mapping[str, Value | None]) -> str:
    """Returns a spec's text with the values of some keys.

    Args:
      text: A valid spec.
      values: New values by dotted name; None for a key that is left out.

    Raises:
      ByHandError: the text is written so that this cannot be done.
    """
    wanted: dict[KeyPath, Value | None] = {
        tuple(key.split(".")): value for key, value in values.items()
    }
    places = spans(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    edits: list[Edit] = []
    new_tables: dict[KeyPath, list[str]] = {}
    for path, value in wanted.items():
        edit = _edit(text, places, path, value, newline)
        if edit is not None:
            edits.append(edit)
        elif value is not None and path not in places.keys:
            pair = f"{write_key(path[-1:])} = {write_value(value)}"
            new_tables.setdefault(path[:-1], []).append(pair)
    removed = {path[:-1] for path, value in wanted.items() if value is None}
    new = _without_empty(edited(text, _in_order(edits)), removed)
    for table, pairs in new_tables.items():
        gap = "" if new.endswith("\n") else newline
        lines = ["", f"[{write_key(table)}]", *pairs, ""]
        new += gap + newline.join(lines)
    if said(new) != _expected(text, wanted):
        told = ", ".join(
            f"{key} = {write_value(value)}"
            for key, value in values.items()
            if value is not None
        )
        raise ByHandError(f"the spec cannot be rewritten by a program\n  hint: {told}")
    return new


def _edit(
    text: str, places: Spans, path: KeyPath, value: Value | None, newline: str
) -> Edit | None:
    """Returns what changes in the text as it is; None if nothing can."""
    if path in places.keys:
        if value is None:
            # In an inline table there is no line to remove: refused by the caller.
            pair = places.pairs.get(path)
            return None if pair is None else (*whole_lines(text, *pair), "")
        scalar = places.values.get(path)
        return None if scalar is None else (*scalar, write_value(value))
    return None if value is None else _added(text, places, path, value, newline)


def _added(
    text: str, places: Spans, path: KeyPath, value: Value, newline: str
) -> Edit | None:
    """Returns where a new pair goes; None if its table is not there yet."""
    pair = f"{write_key(path[-1:])} = {write_value(value)}"
    if path[:-1] in places.ends:
        return _below(text, places.ends[path[:-1]], pair, newline)
    # The table may be written as dotted keys: the new one goes below the last of them.
    siblings = [other for other in places.pairs if other[:-1] == path[:-1]]
    if not siblings:
        return None
    start, end = places.pairs[siblings[-1]]
    before = text[start : places.keys[siblings[-1]][0]]
    return _below(text, end, before + pair, newline)


def _below(text: str, at: int, pair: str, newline: str) -> Edit:
    """Returns the edit that puts a pair on a line of its own below a place."""
    _, end = whole_lines(text, at, at)
    before = "" if text[:end].endswith("\n") else newline
    return end, end, before + pair + newline


def _in_order(edits: list[Edit]) -> list[Edit]:
    """Returns edits so that what goes to one place keeps its order."""
    merged: dict[tuple[int, int], str] = {}
    for start, end, new in edits:
        if start == end:
            merged[start, end] = merged.get((start, end), "") + new
        else:
            merged[start, end] = new
    return [(start, end, new) for (start, end), new in merged.items()]


def _without_empty(text: str, tables: set[KeyPath]) -> str:
    """Returns a text without the headers of tables that have nothing left.

    Some tables mean something by being there.
    """
    places = spans(text)
    edits = [
        (*whole_lines(text, places.ends[table], places.ends[table]), "")
        for table in tables
        if table in places.ends
        and not any(path[: len(table)] == table for path in places.keys)
    ]
    return edited(text, edits)


def _expected(
    text: str, wanted: Mapping[KeyPath, Value | None]
) -> dict[KeyPath, Any] | None:
    """Returns every value that the new text must have, by its path."""
    before = said(text)
    if before is None:
        return None
    kept = {
        path: value
        for path, value in before.items()
        if not any(path[: len(key)] == key for key in wanted)
    }
    for path, value in wanted.items():
        if value is not None:
            kept.update(leaves(value, path))
    return kept


def put(path: Path, content: bytes, values: Mapping[str, Value | None]) -> bool:
    """Puts values into a spec's file, in one go; returns whether that changed it.

    Args:
      path: The file.
      content: What it held when the search began.
      values: New values by dotted name; None for a key that is left out.

    Raises:
      FileError: the file changed meanwhile, or cannot be written.
      ByHandError: it is written so that this cannot be done.
    """
    mark = content.startswith(MARK)
    text = content.removeprefix(MARK).decode()
    new = rewritten(text, values)
    with locked(make_directory(path.resolve().parent)):
        try:
            unchanged = path.read_bytes() == content
        except OSError as error:
            raise FileError(f"cannot read {path}: {error.strerror}") from None
        if not unchanged:
            raise FileError(
                f"{path} changed while its kernel was tuned; nothing was written\n"
                "  hint: run the same command again: what is measured is kept"
            )
        if new != text:
            write([Output(path=path, text="\ufeff" * mark + new)], force=True)
    return new != text
