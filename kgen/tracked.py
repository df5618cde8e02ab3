"""Which files git does not know.

A hook that runs before a commit sees the files of the working directory. One that was
never added is there, looks right, and is not part of the commit.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from kgen.errors import UsageError


def untracked(paths: Sequence[Path]) -> Iterator[Path]:
    """Yields those of `paths` that are in no git index.

    Raises:
      UsageError: git cannot be asked.
    """
    directories = sorted({str(path.parent) for path in paths if path.parent.is_dir()})
    known = {os.path.abspath(name) for name in _listed(directories)}  # noqa: PTH100
    yield from (p for p in paths if os.path.abspath(p) not in known)  # noqa: PTH100


def _listed(directories: Sequence[str]) -> Iterator[str]:
    """Yields the tracked files below directories, as seen from the current one."""
    if not directories:
        return
    command = ["git", "ls-files", "-z", "--", *directories]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except OSError as error:
        raise UsageError(f"--tracked: git cannot be run: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip()
        raise UsageError(f"--tracked: {reason}") from None
    yield from map(os.fsdecode, filter(None, done.stdout.split(b"\0")))
