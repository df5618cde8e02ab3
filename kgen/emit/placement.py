"""How a repository wants its modules: the package they are imported from, a header.

Files that `kgen vendor` keeps name it as the command that makes them again.

Applied to what was rendered, so that no template needs to know. The text is stamped
anew: its digest covers all of the file.
"""

import dataclasses
import keyword
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgen.beside import RELATIVE
from kgen.emit.provenance import MARK, name_vendor, stamp
from kgen.errors import TemplateError

if TYPE_CHECKING:
    from kgen.emit.render import Module

# The imports of a module: lines without anything else between them.
_IMPORTS = re.compile(
    r"^(?:import|from) .*\n(?:\n|(?:import|from) .*\n)*", re.MULTILINE
)
# PEP 263: such a comment would have Python read the file in another encoding.
_CODING = re.compile(r"coding[:=][ \t]*[-\w.]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placement:
    """How a repository wants its modules.

    Attributes:
      package: The package that modules are imported from; empty for none.
      relative_imports: Whether tests import their modules relatively.
      header: Text that every file begins with, as comments; may be empty.
      vendored: Whether `kgen vendor` keeps the files.
    """

    package: str = ""
    relative_imports: bool = False
    header: str = ""
    vendored: bool = False

    @property
    def package_of_modules(self) -> str:
        """The package that modules import each other from; empty for none."""
        return RELATIVE if self.relative_imports else self.package

    def module(self, text: str, name: str, imports: Sequence[str] = ()) -> str:
        """Returns the text of the module `name` as it is wanted.

        Args:
          text: As it is rendered.
          name: Its name.
          imports: Names of the modules that it imports from beside it.

        Raises:
          TemplateError: one of them is not imported in the way that is known.
        """
        example = re.compile(rf"^(    from ){re.escape(name)}( import )", re.MULTILINE)
        if self.package:
            text = example.sub(rf"\g<1>{self.package}.{name}\g<2>", text, count=1)
        if imports and self.package_of_modules:
            package = "." if self.relative_imports else self.package
            text = _moved_imports(text, name, imports, package)
        return self._finished(text)

    def test(self, text: str, name: str) -> str:
        """Returns the text of the standalone test of the module `name` as it is wanted.

        `import NAME as ALIAS` leaves its place among other people's packages: the
        module is one of the repository's own.

        Raises:
          TemplateError: the test does not import its module, or not in one of the two
            ways that are known.
        """
        package = ".." if self.relative_imports else self.package
        if package:
            plain, of_names = _imports_of(name)
            stem = ".." if self.relative_imports else f"{self.package}."
            text, moved = plain.subn(
                rf"\g<others>from {package} import {name}\g<alias>\n\n", text, count=1
            )
            text, changed = of_names.subn(rf"from {stem}{name} import ", text)
            if not moved + changed:
                raise TemplateError(
                    f"the test of {name} has neither `import {name}` nor"
                    f" `from {name} import ...`: it cannot import from a package"
                )
        return self._finished(text)

    def _finished(self, text: str) -> str:
        if self.vendored:
            text = name_vendor(text)
        lines = self.header.strip("\n").split("\n") if self.header.strip() else []
        comments = "".join(f"{_as_comment(line.rstrip())}\n" for line in lines)
        return f"{comments}\n{text}" if comments else text


def _moved_imports(text: str, name: str, imports: Sequence[str], package: str) -> str:
    """Returns a text that imports modules from a package, after all other imports."""
    block = _IMPORTS.search(text)
    lines = block[0].splitlines() if block else []
    moved = [f"import {each}" for each in imports]
    if block is None or any(lines.count(line) != 1 for line in moved):
        raise TemplateError(
            f"the module {name} does not import what is beside it, each on a line"
            f" `import NAME` among its imports: {', '.join(imports)}"
        )
    kept = "\n".join(line for line in lines if line not in moved).strip("\n")
    own = f"from {package} import {', '.join(imports)}"
    return f"{text[: block.start()]}{kept}\n\n{own}\n\n{text[block.end() :]}"


PLAIN = Placement()


def place(module: "Module", placement: Placement) -> "Module":
    """Returns a rendered module as a repository wants it.

    Raises:
      TemplateError: the test does not import its module in a way that is known.
    """
    if placement == PLAIN:
        return module
    from kgen.emit.format import format_source

    source = placement.module(module.source, module.name, module.imports)
    test_source = placement.test(module.test_source, module.name)
    return dataclasses.replace(
        module,
        source=stamp(format_source(source, module.name, prove=False)),
        test_source=stamp(format_source(test_source, module.name, prove=False)),
    )


def _imports_of(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Returns what matches `import NAME`, with the imports after it, and what matches
    the beginning of `from NAME import ...`."""
    name = re.escape(name)
    others = r"(?P<others>(?:\n|import .*\n|from .*\n)*)"
    plain = re.compile(rf"^import {name}(?P<alias> as \w+)?\n{others}", re.MULTILINE)
    return plain, re.compile(rf"^from {name} import ", re.MULTILINE)


def header_fault(header: str) -> str | None:
    """Returns why a text cannot be the header of a file; None if it can."""
    for line in header.split("\n"):
        if not line.replace("\t", " ").isprintable():
            return f"has a character that cannot be printed: {line!a}"
        if _as_comment(line).startswith(MARK.rstrip()):
            return "claims that kgen wrote it"
    if any(_CODING.search(line) for line in header.strip("\n").split("\n")[:2]):
        return "declares an encoding in its first two lines; modules are UTF-8"
    return None


def is_module_path(text: str) -> bool:
    """Whether `text` may stand behind `from`: identifiers between dots."""
    return all(
        part.isidentifier() and part.isascii() and not keyword.iskeyword(part)
        for part in text.split(".")
    )


def _as_comment(line: str) -> str:
    if line.startswith("#"):
        return line
    return f"# {line}" if line else "#"
