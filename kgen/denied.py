"""Which file or directory permissions keep from being read."""

import errno
import os
from pathlib import Path

HINT = "check the permissions, or choose another directory"


def is_denied(error: OSError) -> bool:
    """Whether permissions are what was wrong."""
    return error.errno in (errno.EACCES, errno.EPERM)


def place_of(error: OSError) -> Path | None:
    """Returns what an error is about; None if it does not say.

    Of a path that could not be reached, the outermost directory on the way that must
    not be entered.
    """
    if not isinstance(error.filename, str):
        return None
    path = Path(error.filename)
    on_the_way = reversed(path.parents) if is_denied(error) else ()
    return next((p for p in on_the_way if not os.access(p, os.X_OK)), path)
