"""User text and values as Python source that cannot become code."""

import functools
import re
import textwrap
from collections.abc import Iterable

LINE_LENGTH = 88


def docstring_text(text: str) -> str:
    """Returns `text` for use inside a triple-quoted docstring, wrapped to the line.

    Quotes and backslashes are escaped, and so is whatever cannot be printed (control
    characters, marks that reverse the direction of writing): the text stays data. Words
    are kept whole however long they are, since a cut within an escape would undo it.
    """
    wrap = functools.partial(
        textwrap.wrap,
        width=LINE_LENGTH - len('"""'),
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = [_escape(line.strip()) for line in text.strip().splitlines()]
    return "\n".join(part for line in lines for part in wrap(line) or [""])


def _escape(line: str) -> str:
    line = line.replace("\\", "\\\\")
    # Several quotes in a row might close the docstring, one at its ends as well.
    line = re.sub('"{2,}|^"|"$', lambda quotes: '\\"' * len(quotes[0]), line)
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in line
    )


def tuples(rows: Iterable[tuple[object, ...]]) -> str:
    """Returns a list of tuples of integers, or of tuples of them, as Python source."""
    return repr([tuple(row) for row in rows])
