"""Reports that kgen writes anew without asking: never over a file of somebody else."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from kgen.emit.write import Output, read_text, write
from kgen.errors import FileError


def check_own(path: Path, is_own: Callable[[str], bool], command: str) -> None:
    """Refuses a place where a file lies that kgen did not write; an empty one will do.

    Args:
      path: Where a report is to be written.
      is_own: Whether a text is such a report.
      command: What writes it.

    Raises:
      FileError: the file there is something else, or cannot be read.
    """
    if not os.path.lexists(path):
        return
    text = read_text(path)
    if text is None or (text.strip() and not is_own(text)):
        raise FileError(
            f"{path} was not written by `{command}`\n"
            "  hint: name another file, or remove that one"
        )


def replace(
    outputs: Sequence[Output], is_own: Callable[[str], bool], command: str
) -> None:
    """Writes reports, all or none, over older ones alone.

    Raises:
      FileError: a file in the way is something else, or they cannot be written.
    """
    for output in outputs:
        check_own(output.path, is_own, command)
    write(outputs, force=True)
