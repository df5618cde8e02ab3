"""Rewriting of TOML text in place, so that comments, order and layout stay."""

import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from kgen.spec.locate import KeyPath


def whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the whole lines around a pair: its comment moves along."""
    after = text.find("\n", end)
    return text.rfind("\n", 0, start) + 1, len(text) if after < 0 else after + 1


def edited(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """Returns a text with pieces of it replaced, each from its start to its end."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def said(text: str) -> dict[KeyPath, Any] | None:
    """Returns every value of a document by its path; None if it is no TOML."""
    try:
        return dict(leaves(tomllib.loads(text)))
    except ValueError:
        return None


def leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yields every value that is no table and no array, and every empty array."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif not path or not isinstance(value, dict):
        # That a table is empty says nothing: its keys may have moved.
        yield path, list(value) if isinstance(value, tuple) else value
