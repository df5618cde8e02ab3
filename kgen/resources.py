"""Where the templates and the catalogue of specs lie that kgen brings along."""

from collections.abc import Sequence
from pathlib import Path

from kgen.errors import FileError

_PACKAGE = Path(__file__).resolve().parent


def templates_dir() -> Path:
    """Returns the directory of the shipped templates."""
    return _shipped("templates")


def specs_dir() -> Path:
    """Returns the directory of the shipped specs."""
    return _shipped("specs")


def here_or_shipped(
    places: Sequence[Path],
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Returns places of specs, and notes about those that are the shipped ones.

    `specs` and `specs/NAME.toml` that do not exist here stand for the catalogue that
    kgen brings along, so that it can be tried in an empty directory.
    """
    found, notes = [], []
    for place in places:
        shipped = _catalogue(place)
        found.append(shipped or place)
        if shipped is not None:
            notes.append(f"No {place} here: this is what kgen brings along.")
    return tuple(found), tuple(notes)


def _catalogue(place: Path) -> Path | None:
    """Returns the shipped counterpart of a place that is missing here, if any."""
    local = Path("specs")
    if place.exists() or local not in (place, place.parent):
        return None
    shipped = specs_dir() / place.relative_to(local)
    return shipped if shipped.exists() else None


def _shipped(name: str) -> Path:
    """Returns the packaged copy, or the checkout's directory when run from one.

    Raises:
      FileError: kgen is installed without its data.
    """
    for directory in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if directory.is_dir():
            return directory
    raise FileError(f"kgen's {name} are missing beside {_PACKAGE}; install kgen again")
