"""What commands take from the project file when the command line does not say."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgen.project import Project

DEFAULT_SPECS = Path("specs")
DEFAULT_OUT = Path("generated")
LOCK = "kgen.lock"


def project_here() -> "Project | None":
    """Returns the project of the current directory, if it has one."""
    from kgen.project import find_project

    return find_project()


def specs_of(
    project: "Project | None", given: Sequence[Path], *, catalogue: bool = False
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Returns the places of specs, and notes about those that are the shipped ones.

    Args:
      project: The project of the current directory.
      given: What the command line names.
      catalogue: Whether the whole catalogue is meant where nothing is named and there
        are no specs here.

    Raises:
      UsageError: there are no specs here.
    """
    from kgen.errors import UsageError
    from kgen.resources import here_or_shipped

    if project is not None:
        return tuple(given) or project.specs, ()
    if not given and not catalogue and not DEFAULT_SPECS.exists():
        raise UsageError(
            f"there is no {DEFAULT_SPECS}/ here\n  hint: name specs; `kgen new` writes "
            "one, and specs/NAME.toml stands for one that `kgen list` shows"
        )
    return here_or_shipped(tuple(given) or (DEFAULT_SPECS,))


def templates_of(project: "Project | None", given: Sequence[Path]) -> tuple[Path, ...]:
    """Returns the directories of templates that come before the shipped ones.

    Args:
      project: The project of the current directory.
      given: What the command line names.

    Raises:
      UsageError: one is no directory of templates, or has a template that is probably
        misspelt.
    """
    named, where = tuple(given), "--templates"
    if not named and project is not None:
        named, where = project.templates, f"templates of {project.path}:"
    if named:
        from kgen.emit.overrides import check_directories

        check_directories(named, where)
    return named


def out_of(project: "Project | None", given: Path | None) -> Path:
    """Returns the directory for modules."""
    return given or (DEFAULT_OUT if project is None else project.out)


def refuse_vendored(out: Path) -> None:
    """Refuses to render where the lock file would not know.

    Raises:
      UsageError: `kgen vendor` keeps that directory.
    """
    from kgen.errors import UsageError

    if (out / LOCK).exists():
        raise UsageError(
            f"{out} is kept by `kgen vendor`: it holds {LOCK}\n"
            f"  hint: kgen vendor --update {out}, or kgen vendor --check {out}; for"
            f" `kgen render` to keep it, remove {out / LOCK}"
        )
