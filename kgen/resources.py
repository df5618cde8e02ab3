"""Where the templates and the catalogue of specs lie that kgen brings along."""

from pathlib import Path

from kgen.errors import FileError

_PACKAGE = Path(__file__).resolve().parent


def templates_dir() -> Path:
    """Returns the directory of the shipped templates."""
    return _shipped("templates")


def specs_dir() -> Path:
    """Returns the directory of the shipped specs."""
    return _shipped("specs")


def _shipped(name: str) -> Path:
    """Returns the packaged copy, or the checkout's directory when run from one.

    Raises:
      FileError: kgen is installed without its data.
    """
    for directory in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if directory.is_dir():
            return directory
    raise FileError(f"kgen's {name} are missing beside {_PACKAGE}; install kgen again")
