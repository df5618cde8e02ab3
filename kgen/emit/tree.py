"""The output directory: where files belong, and what lies there without a spec."""

import errno
import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from kgen.emit import provenance
from kgen.emit.write import TEMPORARY, Output, file_error, read_text
from kgen.errors import FileError

# A render takes seconds: a temporary file that old belongs to a run that crashed.
STALE_SECONDS = 3600


def output_of_module(out: Path, name: str, source: str) -> Output:
    """Returns where the module `name` belongs below the directory `out`."""
    return Output(path=out / f"{name}.py", text=source)


def output_of_test(out: Path, name: str, source: str) -> Output:
    """Returns where the standalone test of the module `name` belongs below `out`."""
    return Output(path=out / "tests" / f"test_{name}.py", text=source)


def find_orphans(out: Path, expected: Collection[Path]) -> tuple[Path, ...]:
    """Returns the files in `out` and `out/tests` that kgen wrote, but are not `expected`.

    Raises:
      FileError: a directory cannot be read.
    """
    return tuple(
        path for path in _python_files(out) if path not in expected and _is_kgens(path)
    )


def remove_stale_temporaries(directory: Path) -> None:
    """Removes temporary files that a crashed run left in `directory` an hour ago."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return  # What matters about the directory, writing to it will tell.
    for entry in entries:
        if not re.fullmatch(TEMPORARY, entry.name):
            continue
        try:
            # Not the time of the last write: a backup is another name of an old file.
            changed = entry.stat(follow_symlinks=False).st_ctime
            if time.time() - changed > STALE_SECONDS:
                Path(entry.path).unlink()
        except OSError:
            continue  # Another run was faster, or it is not ours to remove.


def check_writable(directory: Path) -> None:
    """Checks that files can be made in `directory`, which need not exist yet.

    A full disk is not noticed here: this only saves the time of a verification.

    Raises:
      FileError: a file is in the way, or the permissions do not allow it.
    """
    for place in (directory, *directory.parents):
        try:
            exists = place.exists()
        except OSError as error:
            raise file_error("write to", directory, error) from error
        if not exists:
            continue
        if not place.is_dir():
            number = errno.ENOTDIR
        elif os.statvfs(place).f_flag & os.ST_RDONLY:
            number = errno.EROFS
        elif not os.access(place, os.W_OK | os.X_OK):
            number = errno.EACCES
        else:
            return
        reason = OSError(number, os.strerror(number))
        raise file_error("write to", directory, reason)


def _python_files(out: Path) -> Iterator[Path]:
    for directory in (out, out / "tests"):
        try:
            paths = sorted(directory.iterdir())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise file_error("read", directory, error) from error
        yield from (path for path in paths if path.suffix == ".py")


def _is_kgens(path: Path) -> bool:
    try:
        text = read_text(path)
    except FileError:
        return False  # A directory, say; kgen made none that ends in .py.
    return text is not None and provenance.read(text) is not None
