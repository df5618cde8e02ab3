"""Writes files atomically, and only over files that kgen wrote and nobody edited.

A file is first written under a temporary name in the directory it belongs to, then
renamed. Whatever goes wrong, the old files stay as they are, byte for byte, and no
temporary file is left.
"""

import contextlib
import dataclasses
import enum
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kgen import denied
from kgen.emit import provenance
from kgen.errors import FileError
from kgen.processes import signals_held

TEMPORARY = r"\.kgen-[0-9a-f]{16}"

# Directories that this process has locked.
_held: set[Path] = set()


class State(enum.StrEnum):
    """How a file compares with the text that belongs there."""

    MISSING = "missing"
    UNCHANGED = "unchanged"
    DIFFERS = "differs"
    EDITED = "edited"
    FOREIGN = "foreign"

    @property
    def owned(self) -> bool:
        """Whether kgen may write there: nothing of someone else's is lost."""
        return self not in (State.EDITED, State.FOREIGN)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """A text and the file it belongs in."""

    path: Path
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """What was found where an output belongs.

    Attributes:
      output: The output.
      state: How the file compares with it.
      old: The file's text; None if there is no file, or it is not UTF-8.
    """

    output: Output
    state: State
    old: str | None

    @property
    def path(self) -> Path:
        return self.output.path

    @property
    def reason(self) -> str | None:
        """Why the file differs, if that can be told."""
        if self.state is not State.DIFFERS or self.old is None:
            return None
        return provenance.explain_difference(self.old, self.output.text)


class NotOwnedError(FileError):
    """A file in the way is not kgen's, or was edited since; it was not overwritten."""

    @classmethod
    def of(cls, targets: Sequence[Target]) -> "NotOwnedError":
        """Returns the error about those of `targets` that kgen may not overwrite."""
        lines = []
        for target in targets:
            if target.state is State.EDITED:
                lines.append(f"{target.path} was edited since kgen wrote it")
                lines.append("  hint: edit the spec instead, or overwrite with --force")
            elif target.state is State.FOREIGN:
                lines.append(f"{target.path} was not written by kgen")
                lines.append(
                    "  hint: choose another directory, or overwrite with --force"
                )
        return cls("\n".join(lines))


def inspect(output: Output) -> Target:
    """Returns how the file where `output` belongs compares with it.

    Line ends do not count: git may have checked the file out with CRLF.

    Raises:
      FileError: the file cannot be read, or is no regular file.
    """
    try:
        output.path.lstat()
    except FileNotFoundError:
        return Target(output=output, state=State.MISSING, old=None)
    except OSError as error:
        raise file_error("read", output.path, error) from error
    old = read_text(output.path)
    if old is None:
        return Target(output=output, state=State.FOREIGN, old=None)
    return Target(output=output, state=_compare(old, output.text), old=old)


def read_text(path: Path) -> str | None:
    """Returns the text of the file at `path` as it is; None if it is not UTF-8.

    Raises:
      FileError: the file cannot be read, or is no regular file.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            # Reading a pipe or a device could wait for ever.
            kind = "a directory" if path.is_dir() else "no regular file"
            raise FileError(f"cannot write {path}: there is {kind} of that name")
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return None
    except OSError as error:
        if path.is_symlink() and not path.exists():
            raise FileError(
                f"cannot write {path}: it is a symbolic link to a missing file"
            ) from error
        raise file_error("read", path, error) from error


def write(outputs: Sequence[Output], *, force: bool = False) -> tuple[Target, ...]:
    """Writes `outputs`, all or none; returns what was found in their places before.

    Files that hold the text already are left alone. Missing directories are made.

    Args:
      outputs: In the order in which they take their places.
      force: Whether to overwrite files that are not kgen's or were edited.

    Raises:
      NotOwnedError: such a file is in the way; nothing was written.
      FileError: the files cannot be written; the old ones are as they were.
    """
    with contextlib.ExitStack() as stack:
        # In one order everywhere, so that two runs never wait for each other.
        for directory in sorted({make_directory(each.path.parent) for each in outputs}):
            stack.enter_context(locked(directory))
        # From here on ctrl-C waits the few milliseconds until all is in place.
        stack.enter_context(signals_held())
        targets = tuple(inspect(output) for output in outputs)
        if not force and not all(target.state.owned for target in targets):
            raise NotOwnedError.of(targets)
        _replace_all(
            [target for target in targets if target.state is not State.UNCHANGED]
        )
    return targets


def file_error(action: str, path: Path, error: OSError) -> FileError:
    """Returns `error` as a message: what could not be done, why, what to do next."""
    reason = (error.strerror or str(error)).lower()
    hint = None
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            reason = "no space left on the disk"
            hint = "nothing was changed; free some space and run again"
        case errno.EACCES | errno.EPERM:
            hint = denied.HINT
        case errno.EROFS:
            hint = "choose another directory"
        case errno.ENOTDIR | errno.EEXIST:
            reason = "a file stands where a directory is expected"
    text = f"cannot {action} {path}: {reason}"
    return FileError(text if hint is None else f"{text}\n  hint: {hint}")


def _compare(old: str, new: str) -> State:
    if provenance.normalise(old) == provenance.normalise(new):
        return State.UNCHANGED
    found = provenance.read(old)
    if found is None:
        return State.EDITED if provenance.claims(old) else State.FOREIGN
    return State.DIFFERS if found.intact else State.EDITED


def make_directory(directory: Path) -> Path:
    """Makes `directory` unless it exists; returns it free of symbolic links."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return directory.resolve(strict=True)
    except OSError as error:
        raise file_error("make the directory", directory, error) from error


def _replace_all(targets: Sequence[Target]) -> None:
    """Puts every target's text in its place; undoes all if one fails."""
    with contextlib.ExitStack() as cleanup, contextlib.ExitStack() as undo:
        # All are written before the first is replaced: that is where disks run full.
        staged = [_stage(target, cleanup) for target in targets]
        for target, (temporary, place) in zip(targets, staged, strict=True):
            try:
                backup = _backup(place, cleanup)
                temporary.replace(place)
            except OSError as error:
                raise file_error("write", target.path, error) from error
            undo.callback(_restore, place, backup)
        undo.pop_all()  # All are in place: nothing is undone.


def _stage(target: Target, cleanup: contextlib.ExitStack) -> tuple[Path, Path]:
    """Writes the text under a temporary name; returns that and the place it is for."""
    place = target.path.resolve()  # Through symbolic links, to the file itself.
    temporary = _temporary_name(place, cleanup)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            if target.state is not State.MISSING:
                os.fchmod(descriptor, stat.S_IMODE(place.stat().st_mode))
            file.write(target.output.text.encode())
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise file_error("write", target.path, error) from error
    return temporary, place


def _backup(place: Path, cleanup: contextlib.ExitStack) -> Path | None:
    """Returns a second name for the file in `place`; None if there is no file."""
    backup = _temporary_name(place, cleanup)
    try:
        os.link(place, backup)
    except FileNotFoundError:
        return None
    except OSError:
        # A file system without hard links.
        backup.write_bytes(place.read_bytes())
        backup.chmod(stat.S_IMODE(place.stat().st_mode))
    return backup


def _restore(place: Path, backup: Path | None) -> None:
    if backup is None:
        place.unlink()
    else:
        backup.replace(place)


def _temporary_name(place: Path, cleanup: contextlib.ExitStack) -> Path:
    """Returns a fresh name beside `place`; `cleanup` removes what will be there."""
    path = place.parent / f".kgen-{secrets.token_hex(8)}"
    cleanup.callback(path.unlink, missing_ok=True)
    return path


@contextlib.contextmanager
def locked(
    directory: Path, *, waiting: Callable[[], None] = lambda: None
) -> Iterator[bool]:
    """Keeps other kgen processes from writing to `directory` at the same time.

    The lock is on the directory itself, so that no lock file is left. Where a file
    system has no locks, every file is still replaced as a whole. The process that has
    the lock may take it again.

    Args:
      directory: Free of symbolic links.
      waiting: Called when another process has the lock, before waiting for it.

    Yields:
      Whether no other process writes there.
    """
    if directory in _held:
        yield True
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise file_error("write to", directory, error) from error
    try:
        alone = _lock(descriptor, waiting)
        _held.add(directory)
        yield alone
    finally:
        _held.discard(directory)
        os.close(descriptor)  # Which also unlocks.


def _lock(descriptor: int, waiting: Callable[[], None]) -> bool:
    """Waits for the lock of an open directory; returns False if there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        waiting()
    except OSError:
        return False
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    return False
