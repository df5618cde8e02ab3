"""Turns an exception into one line that leads to the place in the module."""

import itertools
import linecache
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

# Around the message proper when Mosaic GPU's verifier refuses the kernel.
_PREAMBLE = "Error details: "
# What XLA writes before and after the exception of a callback.
_CALLBACK, _AFTERWARDS = "error calling callback: ", "\n=== Source Location"
LONGEST_MESSAGE = 400

HINTS = {
    "absl": "jax.experimental.pallas.mosaic_gpu needs absl-py, which jax does not"
    " install; pip install absl-py"
}


class LevelError(Exception):
    """A level found the module wrong; the text says how."""


class NotModelledError(LevelError):
    """A level can say nothing of the module; the text says why. It never passes."""


def explain(error: BaseException, module: Path) -> str:
    """Returns type, message and place of `error` in one line.

    The place is the innermost line of the module on the way to the error. An exception
    without a message is told by where it was raised.
    """
    text = _found(error, module)
    place = _place_in_module(error, module)
    if place is not None:
        text = f"{text}; at {describe_line(module, place)}"
    if isinstance(error, ModuleNotFoundError) and error.name in HINTS:
        text = f"{text} ({HINTS[error.name]})"
    return text


def explain_refusal(error: BaseException, module: Path, allow: Sequence[str]) -> str:
    """Returns the same of an error at which JAX does not go on with a kernel.

    If that may be due to a rule that is allowed to be broken, it is told in lines of
    their own.

    Args:
      error: What was raised.
      module: The module's file.
      allow: Codes of the rules that the kernel may break.
    """
    is_of_jax = _raised_at(error, module) and not isinstance(error, ImportError)
    if not (allow and is_of_jax):
        return explain(error, module)
    lines = [
        f"JAX refuses a kernel that is allowed to break {", ".join(allow)}",
        f"  found: {_found(error, module)}",
    ]
    place = _place_in_module(error, module)
    if place is not None:
        lines.append(f"  at: {describe_line(module, place)}")
    hint = "obey the rule, and remove it from verify.allow"
    return "\n".join([*lines, f"  hint: {hint}; see `kgen rule {allow[0]}`"])


def _found(error: BaseException, module: Path) -> str:
    """Returns type and message; without a message, by what it was raised."""
    message = _message(error)
    raised = _raised_at(error, module)
    if message:
        text = f"{type(error).__name__}: {message}"
    else:
        text = f"{type(error).__name__} without a message"
    if raised and (not message or isinstance(error, AssertionError)):
        text = f"{text}, raised {raised}"
    return text


def describe_line(module: Path, line: int) -> str:
    """Returns the place and the text of a line of the module."""
    text = linecache.getline(str(module), line).strip()
    place = f"{module.name}:{line}"
    return f"{place}: {text}" if text else place


def _message(error: BaseException) -> str:
    """Returns the message in one line, without what surrounds it."""
    if isinstance(error, SyntaxError):
        return str(error.msg)
    text = str(error)
    if _CALLBACK in text:
        text = text.partition(_CALLBACK)[2].partition(_AFTERWARDS)[0]
        text = text.strip().rpartition("\n")[2]
    text = text.rpartition(_PREAMBLE)[2]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # A second line of the verifier repeats the operation.
    text = " ".join(
        itertools.takewhile(lambda s: not s.startswith("see current operation"), lines)
    )
    if len(text) > LONGEST_MESSAGE:
        return text[:LONGEST_MESSAGE] + " ..."
    return text


def _raised_at(error: BaseException, module: Path) -> str | None:
    """Says which function outside the module raised `error`, and by which line."""
    frames = _frames(error.__traceback__)
    if not frames or frames[-1].filename == str(module):
        return None
    frame = frames[-1]
    path = frame.filename.rpartition("site-packages/")[2]
    return f"by {frame.name} ({path}:{frame.lineno}: {frame.line})"


def _place_in_module(error: BaseException, module: Path) -> int | None:
    """Returns the innermost line of the module that led to `error`."""
    if isinstance(error, SyntaxError) and error.filename == str(module):
        return error.lineno
    for related in _related(error):
        lines = [
            frame.lineno
            for frame in _frames(related.__traceback__)
            if frame.filename == str(module)
        ]
        if lines:
            return lines[-1]
    return None


def _related(error: BaseException) -> Iterator[BaseException]:
    """Yields `error` and what it came from; JAX keeps the user's frames in a cause."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        yield following
        seen.add(id(following))
        following = following.__cause__ or following.__context__


def _frames(trace: TracebackType | None) -> traceback.StackSummary:
    return traceback.extract_tb(trace)
