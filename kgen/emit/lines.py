"""Which line of which template yields a line of the output.

Jinja keeps no such map. It is made on demand, for a message: the template is compiled
once more with a mark before every piece of its output.
"""

import bisect
import functools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.compiler import CodeGenerator

# Of a private area: text of a spec is escaped before a template places it.
_BEGIN, _END = "\ue0f0", "\ue0f1"
_MARK = re.compile(f"{_BEGIN}([0-9a-fA-F]*):([0-9]+){_END}")


class Lines:
    """The lines of some output, each with its place.

    Attributes:
      text: The output without marks.
    """

    def __init__(self, marked: str) -> None:
        pieces: list[str] = []
        self._starts: list[int] = []
        self._places: list[tuple[str, int]] = []
        length = at = 0
        for match in _MARK.finditer(marked):
            piece = marked[at : match.start()]
            pieces.append(piece)
            length, at = length + len(piece), match.end()
            self._starts.append(length)
            name = bytes.fromhex(match[1]).decode()
            self._places.append((name, int(match[2])))
        self.text = "".join((*pieces, marked[at:]))

    def place(self, line: int) -> tuple[str, int] | None:
        """Returns the template and its line that yield a line, from 1, of the output."""
        before = self.text.split("\n")[: line - 1]
        start = sum(len(each) + 1 for each in before)
        # A line may begin with white space from the template before.
        start += len(self.text[start:]) - len(self.text[start:].lstrip(" "))
        index = bisect.bisect_right(self._starts, start) - 1
        return self._places[index] if index >= 0 else None


@functools.cache
def traced() -> "type[CodeGenerator]":
    """Returns a code generator for templates that mark what they yield."""
    from jinja2 import nodes
    from jinja2.compiler import CodeGenerator

    class Traced(CodeGenerator):
        """Puts a mark before every expression and every line of text."""

        def visit_Output(self, node: Any, frame: Any) -> None:  # noqa: N802
            name = self.name or ""
            marked = nodes.Output(list(_marked(nodes, name, node.nodes)))
            marked.lineno = node.lineno
            marked.set_environment(node.environment)
            super().visit_Output(marked, frame)

    return Traced


def _marked(nodes: Any, name: str, children: Iterable[Any]) -> Iterator[Any]:
    for child in children:
        if not isinstance(child, nodes.TemplateData):
            yield nodes.TemplateData(_mark(name, child.lineno), lineno=child.lineno)
            yield child
            continue
        for number, line in enumerate(child.data.split("\n")):
            newline = "\n" if number else ""
            data = newline + _mark(name, child.lineno + number) + line
            yield nodes.TemplateData(data, lineno=child.lineno + number)


def _mark(name: str, line: int) -> str:
    # In hex, which a filter such as `upper` leaves readable.
    return f"{_BEGIN}{name.encode().hex()}:{line}{_END}"
