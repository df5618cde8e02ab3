"""Puts values into a spec's text, token by token: comments and layout stay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgen.emit.write import Output, locked, make_directory, write
from kgen.errors import FileError
from kgen.spec.edit import edited, leaves, said, whole_lines
from kgen.spec.locate import InlineTable, KeyPath, spans
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
    held = said(text) or {}
    # What is left out goes last: a new key finds its table where it is.
    for path, value in sorted(wanted.items(), key=lambda pair: pair[1] is None):
        new = _wanted(value, path)
        if {key: held[key] for key in held if _is_within(key, path)} == new:
            continue
        held = {key: held[key] for key in held if not _is_within(key, path)} | new
        text = _without(text, path) if value is None else _with(text, path, value)
        if said(text) != held:
            raise _by_hand(path, value)
    removed = {path[:-1] for path, value in wanted.items() if value is None}
    return _without_empty(text, removed)


def _wanted(value: Value | None, path: KeyPath) -> dict[KeyPath, Any]:
    return {} if value is None else dict(leaves(value, path))


def _is_within(key: KeyPath, path: KeyPath) -> bool:
    return key[: len(path)] == path


def _by_hand(path: KeyPath, value: Value | None) -> ByHandError:
    key = write_key(path)
    hint = f"remove {key} by hand"
    if value is not None:
        hint = f"put it there by hand: {key} = {write_value(value)}"
    return ByHandError(
        f"{key} cannot be put into its text by a program\n  hint: {hint}"
    )


def _with(text: str, path: KeyPath, value: Value) -> str:
    """Returns a text with a pair: in place of its old value, or below its siblings."""
    places = spans(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    pair = f"{write_key(path[-1:])} = {write_value(value)}"
    if path in places.keys:
        scalar = places.values.get(path)
        return text if scalar is None else edited(text, [(*scalar, write_value(value))])
    table = path[:-1]
    if table in places.inline:
        return edited(text, [_last_of(places.inline[table], pair)])
    if table in places.ends:
        return edited(text, [_below(text, places.ends[table], pair, newline)])
    # The table may be written as dotted keys: the new one goes below the last of them.
    siblings = [other for other in places.pairs if other[:-1] == table]
    if siblings:
        start, end = places.pairs[siblings[-1]]
        before = text[start : places.keys[siblings[-1]][0]]
        return edited(text, [_below(text, end, before + pair, newline)])
    gap = "" if text.endswith("\n") else newline
    return text + gap + newline.join(["", f"[{write_key(table)}]", pair, ""])


def _below(text: str, at: int, pair: str, newline: str) -> Edit:
    """Returns the edit that puts a pair on a line of its own below a place."""
    _, end = whole_lines(text, at, at)
    before = "" if text[:end].endswith("\n") else newline
    return end, end, before + pair + newline


def _last_of(table: InlineTable, pair: str) -> Edit:
    """Returns the edit that puts a pair behind the others of an inline table."""
    if not table.pairs:
        return (*table.braces, f"{{ {pair} }}")
    _, end = [*table.pairs.values()][-1]
    return end, end, f", {pair}"


def _without(text: str, path: KeyPath) -> str:
    """Returns a text without a pair; with an inline table's last one it goes itself."""
    places = spans(text)
    table = places.inline.get(path[:-1])
    if path in places.pairs:
        return edited(text, [_off_its_lines(text, *places.pairs[path])])
    if table is None or path not in table.pairs:
        return text
    if len(table.pairs) == 1:
        return _without(text, path[:-1])
    others = [*table.pairs]
    index = others.index(path)
    start, end = table.pairs[path]
    if index + 1 < len(others):
        end, _ = table.pairs[others[index + 1]]
    else:
        _, start = table.pairs[others[index - 1]]
    return edited(text, [(start, end, "")])


def _off_its_lines(text: str, start: int, end: int) -> Edit:
    """Returns the edit that removes whole lines, but for the comment at their end."""
    first, last = whole_lines(text, start, end)
    comment = text.find("#", end, last)
    return (first, last, "") if comment < 0 else (start, comment, "")


def _without_empty(text: str, tables: set[KeyPath]) -> str:
    """Returns a text without the headers of tables that have nothing left.

    Some tables mean something by being there.
    """
    places = spans(text)
    edits = []
    for table in tables & places.ends.keys():
        if not any(_is_within(path, table) for path in places.keys):
            end = places.ends[table]
            start, _ = whole_lines(text, end, end)
            edits.append(_off_its_lines(text, start, end))
    return edited(text, edits)


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
