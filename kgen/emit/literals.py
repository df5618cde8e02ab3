"""User text and values as Python source that cannot become code."""

import textwrap

LINE_LENGTH = 88


def docstring_text(text: str) -> str:
    """Returns `text` for use inside a triple-quoted docstring, wrapped to the line.

    Quotes and backslashes are escaped, and so is whatever cannot be printed (control
    characters, marks that reverse the direction of writing): the text stays data.
    """
    lines = [_escape(line.rstrip()) for line in text.strip().splitlines()]
    width = LINE_LENGTH - len('"""')
    wrapped = [part for line in lines for part in textwrap.wrap(line, width) or [""]]
    return "\n".join(wrapped)


def _escape(line: str) -> str:
    line = line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in line
    )


def tuples(rows: tuple[tuple[int, ...], ...]) -> str:
    """Returns a list of tuples of integers as Python source."""
    return repr([tuple(row) for row in rows])
