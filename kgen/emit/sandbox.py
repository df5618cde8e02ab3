"""What a template may do: place values and text, and nothing else.

It may come with somebody's repository. So it reaches no file, no module of Python and
nothing random, and it ends.
"""

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

# The largest template of kgen takes some thousand.
MAX_STEPS = 1_000_000
# Characters or elements of a text or list that an operator makes, and bits of a number.
MAX_SIZE = 1_000_000


class TooMuchError(Exception):
    """A template takes too long, or makes something too large."""


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment whose templates reach only what they are given."""

    intercepted_binops = frozenset({"*", "**", "+"})

    def __init__(self, loader: jinja2.BaseLoader) -> None:
        super().__init__(
            loader=loader,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,  # The output is Python, not HTML.
        )
        # The same template must yield the same text.
        del self.globals["lipsum"], self.filters["random"]

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:
        """Computes `left operator right` unless the result is too large."""
        if _size(operator, left, right) > MAX_SIZE:
            raise TooMuchError(f"{operator} would make something too large")
        return super().call_binop(context, operator, left, right)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Ends templates that are rendered here after `MAX_STEPS` lines.

    Raises:
      TooMuchError: a template takes more.
    """
    steps = 0

    def count(_: FrameType, event: str, __: object) -> Any:
        nonlocal steps
        steps += event == "line"
        if steps > MAX_STEPS:
            raise TooMuchError(f"it does not end within {MAX_STEPS:,} steps")
        return count

    def enter(frame: FrameType, _: str, __: object) -> Any:
        # Names of a compiled template; what it calls is not counted.
        return count if "__jinja_template__" in frame.f_globals else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def _size(operator: str, left: Any, right: Any) -> int:
    """Returns how large a result is at most, as far as that can be told."""
    if operator == "**":
        whole = isinstance(left, int) and isinstance(right, int)
        return left.bit_length() * right if whole else 0
    sizes = [
        len(each) for each in (left, right) if isinstance(each, str | list | tuple)
    ]
    if operator == "+":
        return sum(sizes)
    counts = [each for each in (left, right) if isinstance(each, int)]
    return sizes[0] * counts[0] if sizes and counts else 0
