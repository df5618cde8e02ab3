"""Specs of older formats: what is rewritten, and how it is done without losing a byte.

A migration says which keys and values have another name in its format. They are replaced
in the text itself, token by token; comments, order and layout stay as they are.

    0 -> 1   Keys and values have one spelling. Before, those of other tools were in use:
             `stages`, `block_m`, `fp16`.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from kgen.errors import Problem, SpecError
from kgen.spec.document import document_of
from kgen.spec.edit import edited, leaves, said, whole_lines
from kgen.spec.keys import DOC, FORMAT_KEY, NAME, OP, SYNONYMS, get, node_at
from kgen.spec.locate import KeyPath, Spans, locate, spans
from kgen.spec.model import FORMAT
from kgen.spec.validate import ALIASES
from kgen.spec.wording import accepts, show, write_key, write_value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that is rewritten.

    Attributes:
      path: The key or array element in the old document.
      home: The key in the new one; the same if only the value changes.
      value: The new value; None if it stays.
    """

    path: KeyPath
    home: KeyPath
    value: object = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Migration:
    """The way from one format to the next.

    Attributes:
      to: The format that it leads to.
      steps: Finds what must be rewritten in a document of the format before.
    """

    to: int
    steps: Callable[[dict[str, Any], Spans], Iterator[Step]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Migrated:
    """A spec in the newest format.

    Attributes:
      text: The new text; the old one if nothing had to change.
      changes: Line in the old text, and what was rewritten there.
    """

    text: str
    changes: tuple[tuple[int, str], ...]


def migrate(text: str, name: str) -> Migrated:
    """Returns a spec in the newest format.

    A document that does not name its format may be of any: it is looked through from
    the oldest on.

    Args:
      text: The file's text.
      name: What it is called in messages.

    Raises:
      SpecError: it is no TOML, from the future, or cannot be rewritten by a program.
    """
    document = document_of(text, name)
    found = document.get("format", 0)
    lines = locate(text)
    if type(found) is not int or found < 0 or found > FORMAT:
        message = f"format = {show(found)} is none that this kgen knows: up to {FORMAT}"
        newer = type(found) is int and found > FORMAT
        hint = "install a newer kgen" if newer else f"write {FORMAT}"
        raise _refused(name, lines.get(FORMAT_KEY), message, hint)
    changes: list[tuple[int, str]] = []
    for migration in MIGRATIONS:
        if found < migration.to:
            text, told = _apply(migration, text, name)
            changes += told
    return Migrated(text=text, changes=tuple(changes))


def _other_words(document: dict[str, Any], places: Spans) -> Iterator[Step]:
    """Yields the keys and values that have the names of other tools."""
    op = get(document, OP)
    if isinstance(op, str) and ALIASES.get(op.lower(), op) != "matmul":
        return  # What a plug-in calls a key is its own affair.
    homes = {}
    for path in places.keys:
        within, key = _split(path)
        if node_at(key) is None and key and key[-1] in SYNONYMS:
            homes[path] = (*within, *SYNONYMS[str(key[-1])])
            yield Step(path=path, home=homes[path])
    for path, value in _strings(_values(places, document)):
        start = next((p for p in homes if path[: len(p)] == p), None)
        home = path if start is None else (*homes[start], *path[len(start) :])
        within, key = _split(home)
        # In a [matrix], the values of a key stand in an array.
        if path in (NAME, DOC):
            filled = _with_placeholders(value, homes)
            if filled != value:
                yield Step(path=path, home=path, value=filled)
        node = node_at(key[:-1] if within and isinstance(key[-1], int) else key)
        known = ALIASES.get(value.lower())
        if node is None or known is None or accepts(node, value):
            continue
        if accepts(node, known):
            yield Step(path=path, home=path, value=known)


def _with_placeholders(text: str, homes: dict[KeyPath, KeyPath]) -> str:
    """Returns a name or a doc with the placeholders of keys that are renamed."""
    for path, home in homes.items():
        if path[0] == "matrix":
            old, new = write_key(path[1:]), write_key(home[1:])
            text = text.replace(f"{{{old}}}", f"{{{new}}}")
    return text


MIGRATIONS = (Migration(to=1, steps=_other_words),)


def _split(path: KeyPath) -> tuple[KeyPath, KeyPath]:
    """Returns `("matrix",)` or nothing, and the key as the model names it."""
    return (path[:1], path[1:]) if path[0] == "matrix" else ((), path)


def _values(places: Spans, document: dict[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Yields every value that is no array and no table."""
    for path in places.values:
        value: Any = document
        for part in path:
            value = value[part]
        yield path, value


def _strings(values: Iterator[tuple[KeyPath, Any]]) -> Iterator[tuple[KeyPath, str]]:
    return ((path, value) for path, value in values if isinstance(value, str))


def _apply(
    migration: Migration, text: str, name: str
) -> tuple[str, list[tuple[int, str]]]:
    document, places, lines = document_of(text, name), spans(text), locate(text)
    steps = list(migration.steps(document, places))
    if document.get("format") is not None:
        steps.append(Step(path=FORMAT_KEY, home=FORMAT_KEY, value=migration.to))
    taken: dict[KeyPath, KeyPath] = {}
    for step in steps:
        home = taken.setdefault(step.home, step.path)
        if step.home != step.path and (step.home in lines or home != step.path):
            other = step.home if step.home in lines else home
            both = f"{write_key(step.path)} and {write_key(other)} are both set"
            line = lines.get(step.path)
            raise _refused(name, line, both, "they mean the same: remove one of them")
    new = _rewritten(text, places, steps)
    if said(new) != _expected(document, places, steps):
        first = lines.get(steps[0].path)
        message = "the keys of an older format cannot be rewritten by a program here"
        names = ", ".join(_told(step) for step in steps)
        raise _refused(name, first, message, f"do it by hand: {names}")
    told = [(lines[step.path], _told(step)) for step in steps]
    return new, sorted(told)


def _rewritten(text: str, places: Spans, steps: list[Step]) -> str:
    """Returns the text with every step done, from the last to the first."""
    edits: list[tuple[int, int, str]] = []
    moved: dict[KeyPath, list[str]] = {}
    renamed = {step.path: step.home for step in steps if step.home != step.path}
    values = [
        (*places.values[step.path], write_value(step.value))
        for step in steps
        if step.value is not None
    ]
    for path, home in renamed.items():
        table = path[:-1]
        start, end = places.keys[path]
        if home[: len(table)] == table:
            edits.append((start, end, write_key(home[len(table) :])))
        elif path in places.pairs:
            line = whole_lines(text, *places.pairs[path])
            inner = [v for v in values if line[0] <= v[0] < line[1]]
            values = [v for v in values if v not in inner]
            parts = [*inner, (start, end, write_key(home[-1:]))]
            body = edited(text, parts)
            tail = len(text) - line[1]
            moved.setdefault(home[:-1], []).append(body[line[0] : len(body) - tail])
            edits.append((*line, ""))
    edits += values
    newline = "\r\n" if "\r\n" in text else "\n"
    appended = ""
    for table, pairs in moved.items():
        block = "".join(pair.rstrip("\r\n") + newline for pair in pairs)
        if table in places.ends:
            _, at = whole_lines(text, places.ends[table], places.ends[table])
            before = "" if text[:at].endswith("\n") else newline
            edits.append((at, at, before + block))
        else:
            appended += f"{newline}[{write_key(table)}]{newline}{block}"
    new = edited(text, edits)
    if appended and not new.endswith("\n"):
        new += newline
    return new + appended


def _expected(
    document: dict[str, Any], places: Spans, steps: list[Step]
) -> dict[KeyPath, Any]:
    homes = {step.path: step.home for step in steps if step.home != step.path}
    values = {step.path: step.value for step in steps if step.value is not None}
    found = {}
    for path, value in leaves(document):
        start = next((p for p in homes if path[: len(p)] == p), None)
        home = path if start is None else (*homes[start], *path[len(start) :])
        found[home] = values.get(path, value)
    return found


def _told(step: Step) -> str:
    if step.home != step.path:
        return f"{write_key(step.path)} becomes {write_key(step.home)}"
    return f"{write_key(step.path)} becomes {write_value(step.value)}"


def _refused(name: str, line: int | None, message: str, hint: str) -> SpecError:
    problem = Problem(path=name, line=line, code="KG011", message=message, hint=hint)
    return SpecError((problem,))
