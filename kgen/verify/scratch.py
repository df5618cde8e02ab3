"""The private directory of a worker, and those that killed runs have left behind.

A run holds a lock on its directory. The system releases the lock whatever ends the
run, so that a later one knows which directories nobody needs.
"""

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "kgen-verify-"
# A directory is made a moment before it is locked.
STALE_SECONDS = 3600


@contextlib.contextmanager
def private_directory() -> Iterator[str]:
    """Makes a directory, and removes it at the end of the block.

    Raises:
      OSError: it cannot be made.
    """
    remove_left_behind(tempfile.gettempdir())
    with (
        tempfile.TemporaryDirectory(
            prefix=PREFIX, ignore_cleanup_errors=True
        ) as directory,
        contextlib.ExitStack() as stack,
    ):
        # Where a file system has no locks, nobody can take one and remove it either.
        with contextlib.suppress(OSError):
            stack.enter_context(_locked(directory))
        yield directory


@functools.cache
def remove_left_behind(parent: str) -> None:
    """Removes the old directories in `parent` whose runs are gone."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                # Another user's, or another run is removing it.
                with contextlib.suppress(OSError):
                    _remove_if_stale(entry)


def _remove_if_stale(entry: "os.DirEntry[str]") -> None:
    found = entry.stat(follow_symlinks=False)
    young = time.time() - found.st_mtime < STALE_SECONDS
    if young or found.st_uid != os.geteuid():
        return
    with _locked(entry.path):
        shutil.rmtree(entry.path, ignore_errors=True)


@contextlib.contextmanager
def _locked(directory: str | Path) -> Iterator[None]:
    """Holds the lock of a directory; raises OSError if another process does."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    descriptor = os.open(directory, flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)  # Which also unlocks.
