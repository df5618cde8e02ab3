"""The output directory: where files belong, and what lies there without a spec."""

import dataclasses
import errno
import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Orphan:
    """A file that kgen wrote, and that no spec makes any more.

    Attributes:
      path: The file.
      edited: Whether it was edited since.
    """

    path: Path
    edited: bool


def find_orphans(
    out: Path, expected: Collection[Path], places: Collection[str]
) -> tuple[Orphan, ...]:
    """Returns the orphans in `out` and `out/tests`.

    Args:
      out: The output directory.
      expected: The files that some spec makes.
      places: Spec files and directories, as `specs/gemm` or `specs/gemm.toml`. Files
        that were made from specs elsewhere are no orphans: nothing is known of these.

    Raises:
      FileError: a directory cannot be read.
    """
    orphans = []
    for path in _python_files(out):
        found = _provenance(path) if path not in expected else None
        if found is not None and _is_within(found.spec, places):
            orphans.append(Orphan(path=path, edited=not found.intact))
    return tuple(orphans)


def find_rendered(out: Path) -> Path | None:
    """Returns a file in `out` or `out/tests` that `kgen render` wrote, if there is one.

    Raises:
      FileError: a directory cannot be read.
    """
    for path in _python_files(out):
        found = _provenance(path)
        if found is not None and not found.vendored:
            return path
    return None


def remove_stale_temporaries(
    directory: Path, *, seconds: float = STALE_SECONDS
) -> None:
    """Removes temporary files that a crashed run left in `directory`.

    Args:
      directory: The directory.
      seconds: Their age. Whoever keeps others from writing there need not wait.
    """
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
            if time.time() - changed > seconds:
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


def _is_within(spec: str, places: Collection[str]) -> bool:
    return any(PurePosixPath(spec).is_relative_to(place) for place in places)


def _provenance(path: Path) -> provenance.Provenance | None:
    """Returns what a file says about its making; None if kgen did not write it."""
    try:
        text = read_text(path)
    except FileError:
        return None  # A directory, say; kgen made none that ends in .py.
    return None if text is None else provenance.read(text)
