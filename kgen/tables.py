"""Tables as values, and as text: drawn by rich on a terminal, plain elsewhere."""

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 80
_GAP = "  "
_SHORT = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text.

    Attributes:
      title: One line above the table; may be empty.
      columns: Heads of the columns; empty strings for a table without heads.
      rows: Cells, as many in each row as there are columns.
      right: Indices of the columns that are flush right.
      note: Prose below the table; may be empty.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    note: str = ""

    @property
    def has_heads(self) -> bool:
        return any(self.columns)


def write_tables(tables: Sequence[Table], stream: TextIO) -> None:
    """Writes `tables` to `stream`, one below the other."""
    if stream.isatty():
        _write_rich(tables, stream)
    else:
        write_text("\n".join(plain_text(table) for table in tables), stream)


def write_text(text: str, stream: TextIO) -> None:
    """Writes `text`; what the stream cannot encode becomes an escape sequence."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    # A file name that is no UTF-8 holds surrogates, which no encoding takes.
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def plain_text(table: Table, width: int = WIDTH) -> str:
    """Returns `table` as aligned lines, with a line feed at the end of each.

    The last column takes what the others leave of `width` and is wrapped between
    words. A word is never broken, so that a name or a path stays whole.
    """
    body = [tuple(printable(cell) for cell in row) for row in table.rows]
    grid = [table.columns, *body] if table.has_heads else body
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = [printable(table.title)] if table.title else []
    for row in grid:
        lines += _plain_row(row, widths, table.right, width)
    if table.note:
        lines += textwrap.wrap(
            printable(table.note),
            width,
            initial_indent=_GAP,
            subsequent_indent=_GAP,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def printable(text: str) -> str:
    """Returns `text` on one line, its control characters escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def _plain_row(
    row: Sequence[str], widths: Sequence[int], right: frozenset[int], width: int
) -> list[str]:
    """Returns the lines of one row, its last cell wrapped."""
    *cells, last = row
    head = _GAP
    for index, cell in enumerate(cells):
        flush = cell.rjust if index in right else cell.ljust
        head += flush(widths[index]) + _GAP
    if len(row) - 1 in right:
        last = last.rjust(widths[-1])
    if len(head) + len(last) <= width:
        return [head + last]
    pieces = textwrap.wrap(
        last,
        # A path in a narrow rest would otherwise be wrapped word by word.
        max(width - len(head), 24),
        break_long_words=False,
        break_on_hyphens=False,
    )
    indent = " " * len(head)
    first, *others = pieces or [""]
    return [head + first, *(indent + piece for piece in others)]


def _write_rich(tables: Sequence[Table], stream: TextIO) -> None:
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    for index, table in enumerate(tables):
        if index:
            console.print()
        for part in _rich_parts(table):
            console.print(part)


def _rich_parts(table: Table) -> "list[RenderableType]":
    """Returns what is drawn of one table: title, rows, note."""
    from rich.table import Table as RichTable
    from rich.text import Text

    # Laid out as the plain text; a box would take the width that paths need.
    drawn = RichTable(box=None, show_header=table.has_heads, padding=(0, 0, 0, 2))
    for index, head in enumerate(table.columns):
        widest = max(len(row[index]) for row in (table.columns, *table.rows))
        drawn.add_column(
            Text(head),
            justify="right" if index in table.right else "left",
            overflow="fold",
            # Sizes stay whole where a name or a path can be folded instead.
            no_wrap=widest <= _SHORT,
        )
    for row in table.rows:
        # Text, not str: brackets of a spec are no markup.
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    parts: list[RenderableType] = []
    if table.title:
        parts.append(Text(printable(table.title), style="bold"))
    parts.append(drawn)
    if table.note:
        parts.append(Text(printable(table.note), style="dim"))
    return parts
