"""What a module imports from beside it: generated modules that need each other."""

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

RELATIVE = "kernels"
"""The package that stands for the one of relative imports, whose name nobody knows."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """The modules beside another one.

    Attributes:
      texts: The text of each, by its name.
      package: The package that it imports them from; empty if from none.
    """

    texts: dict[str, str]
    package: str


def find(text: str, directory: Path) -> Found:
    """Returns the modules of `directory` that a module imports: `import NAME`, or `from
    PACKAGE import NAME` where the package is relative or ends like the directory.

    Args:
      text: The module's text.
      directory: Where it lies.

    Raises:
      SyntaxError: the text is not Python.
    """
    texts: dict[str, str] = {}
    found = ""
    for package, name in _imports(ast.parse(text)):
        if package and package.rpartition(".")[2] not in (directory.name, RELATIVE):
            continue
        try:
            texts[name] = (directory / f"{name}.py").read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            continue  # Some other module; if it is missing, Python tells.
        found = package
    return Found(texts=texts, package=found)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields package and name of what the top level of a module imports."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (("", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 1 and not node.module:
            yield from ((RELATIVE, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
