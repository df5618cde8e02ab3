"""Where the files of a request are put, so that they import each other."""

import json
import sys
from pathlib import Path

from kgen.verify.request import Request


def own_path(request: Request, directory: Path) -> Path:
    """Returns where a module's text is put; its own file if it is imported there."""
    if request.path:
        return Path(request.path)
    return directory.joinpath(*_packages(request), f"{request.name}.py")


def write(request: Request, directory: Path) -> None:
    """Writes a module and those beside it, and has Python find the latter.

    Args:
      request: Tells the texts, and the package that they import each other from.
      directory: Private to the process.
    """
    path = own_path(request, directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    for parent in path.parents[: len(_packages(request))]:
        (parent / "__init__.py").touch()
    path.write_text(request.source, encoding="utf-8")
    beside: dict[str, str] = json.loads(request.beside)
    for name, text in beside.items():
        path.with_name(f"{name}.py").write_text(text, encoding="utf-8")
    if beside:
        sys.path.insert(0, str(directory))


def full_name(request: Request) -> str:
    """Returns the name that a module is imported by."""
    return ".".join([*_packages(request), request.name])


def _packages(request: Request) -> list[str]:
    return request.package.split(".") if request.package else []
