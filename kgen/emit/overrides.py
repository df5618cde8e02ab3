"""Directories of templates that a user brings along."""

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from kgen.errors import FileError, UsageError
from kgen.resources import templates_dir

SUFFIX = ".jinja"


def check_directories(directories: Sequence[Path], where: str) -> None:
    """Checks that directories hold templates, and none that takes effect nowhere.

    A template may have any name if another one refers to it. A name close to one of
    kgen's that nothing refers to is taken for a slip: the template would be passed over
    without a word.

    Args:
      directories: In the order in which a name is looked up.
      where: What names them, for messages.

    Raises:
      UsageError: a directory is missing or empty, or a name is probably misspelt.
      FileError: a directory cannot be read.
    """
    for directory in directories:
        if not directory.is_dir():
            what = "not a directory" if directory.exists() else "no such directory"
            raise UsageError(f"{where} {directory}: {what}")
        if not os.access(directory, os.R_OK):
            raise FileError(f"{where} {directory}: permission denied")
        names = sorted(_names(directory))
        if not names:
            raise UsageError(f"{where} {directory}: no templates (*{SUFFIX}) in it")
    known = sorted(_names(templates_dir()))
    for directory in directories:
        for name in sorted(_names(directory)):
            _check_name(directory, name, known, directories)


def _names(directory: Path) -> Iterator[str]:
    for path in directory.rglob(f"*{SUFFIX}"):
        yield path.relative_to(directory).as_posix()


def _check_name(
    directory: Path, name: str, known: Sequence[str], directories: Sequence[Path]
) -> None:
    # What names have in common, be it but the suffix, makes none alike.
    bases = {PurePosixPath(each).name.partition(".")[0]: each for each in known}
    base = PurePosixPath(name).name.partition(".")[0]
    near = difflib.get_close_matches(base, bases, n=1, cutoff=0.8)
    if name in known or not near or _is_named(name, directories):
        return
    raise UsageError(
        f"{directory / name} overrides no template, and none refers to it\n"
        f"  hint: did you mean {bases[near[0]]}?"
    )


def _is_named(name: str, directories: Sequence[Path]) -> bool:
    """Whether some template of these directories has the name in its text."""
    return any(
        name in path.read_text(encoding="utf-8", errors="replace")
        for directory in directories
        for path in directory.rglob(f"*{SUFFIX}")
    )
