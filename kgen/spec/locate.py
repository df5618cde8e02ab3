"""Where every key of a TOML document stands.

`tomllib` tells no lines. This scanner walks text that `tomllib` has already accepted,
so it only has to find where keys and values begin and end, not whether they are valid.
"""

import bisect
import dataclasses
import re
import tomllib

type KeyPath = tuple[str | int, ...]
"""Keys from the top down; an element of an array is named by its index, from 0."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")
# A closing delimiter may be preceded by two more quotes that belong to the string.
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)


def locate(text: str) -> dict[KeyPath, int]:
    """Returns the line of every table, key and array element, in written order.

    Args:
      text: A valid TOML document.

    Returns:
      Lines from 1. A table that is written more than once, such as `a` in `a.b = 1` and
      `a.c = 2`, has the line of its first mention; a key of an inline table has its own.
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


@dataclasses.dataclass(frozen=True, kw_only=True)
class InlineTable:
    """Where an inline table and its pairs begin and end.

    Attributes:
      braces: From the opening one to behind the closing one.
      pairs: Every pair between them, without the comma.
    """

    braces: tuple[int, int]
    pairs: dict[KeyPath, tuple[int, int]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    """Where the parts of a document begin and end, as offsets into its text.

    Attributes:
      keys: The last part of the key of every pair, such as `b` of `a.b = 1`.
      pairs: Every pair of a table with a header, or of none, without what follows on
        its line.
      values: Every value that is no array and no inline table.
      ends: For the path of every header: the end of its last pair, or of itself.
      inline: Every inline table.
    """

    keys: dict[KeyPath, tuple[int, int]]
    pairs: dict[KeyPath, tuple[int, int]]
    values: dict[KeyPath, tuple[int, int]]
    ends: dict[KeyPath, int]
    inline: dict[KeyPath, InlineTable]


def spans(text: str) -> Spans:
    """Returns where every part of a valid document begins and ends."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.spans


class _Scanner:
    """Reads a document from front to back; every method moves `_at` past its part."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.spans = Spans(keys={}, pairs={}, values={}, ends={}, inline={})
        self._text = text
        self._at = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._last_element: dict[KeyPath, int] = {}
        self._last_key = (0, 0)

    def document(self) -> None:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._sees("["):
                table = self._header()
            else:
                start = self._at
                path = self._pair(table)
                self.spans.pairs[path] = (start, self._at)
            self.spans.ends[table] = self._at
            self._skip(_BLANK)

    def _header(self) -> KeyPath:
        """Reads `[a.b]` or `[[a.b]]` and returns the path of the table it opens."""
        line = self._line()
        is_array = self._sees("[[")
        self._at += 2 if is_array else 1
        *parents, last = self._dotted_key()
        self._at += 2 if is_array else 1
        path: KeyPath = ()
        for key in parents:
            path = self._open((*path, key), line)
        path = (*path, last)
        if is_array:
            self._last_element[path] = self._last_element.get(path, -1) + 1
        return self._open(path, line)

    def _open(self, path: KeyPath, line: int) -> KeyPath:
        """Records a table; within an array of tables, that is its latest element."""
        self.lines.setdefault(path, line)
        if path in self._last_element:
            path = (*path, self._last_element[path])
            self.lines.setdefault(path, line)
        return path

    def _pair(self, table: KeyPath) -> KeyPath:
        """Reads `a.b = value` and returns the path of the value."""
        line = self._line()
        path = table
        for key in self._dotted_key():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self.spans.keys[path] = self._last_key
        self._at += 1  # =
        self._skip(_SPACE)
        self._value(path)
        return path

    def _dotted_key(self) -> list[str]:
        keys = [self._key()]
        while self._sees("."):
            self._at += 1
            keys.append(self._key())
        return keys

    def _key(self) -> str:
        self._skip(_SPACE)
        start = self._at
        if self._sees('"') or self._sees("'"):
            key = str(tomllib.loads(f"key = {self._skip(_STRING)}")["key"])
        else:
            key = self._skip(_BARE_KEY)
        self._last_key = (start, self._at)
        self._skip(_SPACE)
        return key

    def _value(self, path: KeyPath) -> None:
        if self._sees("["):
            self._array(path)
        elif self._sees("{"):
            self._inline_table(path)
        else:
            start = self._at
            quoted = self._sees('"') or self._sees("'")
            text = self._skip(_STRING if quoted else _SCALAR).rstrip()
            self._at = start + len(text)
            self.spans.values[path] = (start, self._at)

    def _array(self, path: KeyPath) -> None:
        self._at += 1  # [
        index = 0
        while self._next_item("]"):
            self.lines[*path, index] = self._line()
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: KeyPath) -> None:
        start = self._at
        pairs: dict[KeyPath, tuple[int, int]] = {}
        self._at += 1  # {
        while self._next_item("}"):
            at = self._at
            pair = self._pair(path)
            pairs[pair] = (at, self._at)
        self.spans.inline[path] = InlineTable(braces=(start, self._at), pairs=pairs)

    def _next_item(self, end: str) -> bool:
        """Moves to the next item of an array or inline table, or past its end."""
        self._skip(_BLANK)
        if self._sees(","):
            self._at += 1
            self._skip(_BLANK)
        if self._sees(end):
            self._at += 1
            return False
        return True

    def _sees(self, token: str) -> bool:
        return self._text.startswith(token, self._at)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        assert match is not None, f"no {pattern.pattern} at {self._at}"
        self._at = match.end()
        return match[0]

    def _line(self) -> int:
        return bisect.bisect_left(self._newlines, self._at) + 1
