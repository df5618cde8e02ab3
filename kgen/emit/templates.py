"""The Jinja environment of the templates."""

import functools
import hashlib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgen.emit.blocks import lost_block
from kgen.emit.lines import Lines, traced
from kgen.errors import TemplateError

if TYPE_CHECKING:
    import jinja2
    import jinja2.nodes

DIGEST_LENGTH = 12


class Templates:
    """The templates of one or more directories; the first that has a name wins."""

    def __init__(
        self, directories: Sequence[Path], *, shipped: Mapping[str, Path]
    ) -> None:
        """Opens directories of templates.

        Args:
          directories: In the order in which a name is looked up.
          shipped: Further directories whose templates are also there under a prefix,
            whatever overrides them: `kgen/matmul.py.jinja`.
        """
        import jinja2

        self._prefixes = dict(shipped)
        self._shipped = tuple(shipped.values())
        self._directories = (*directories, *self._shipped)
        loaders = {
            prefix: jinja2.FileSystemLoader(directory)
            for prefix, directory in shipped.items()
        }
        self._loader = jinja2.ChoiceLoader(
            [
                jinja2.PrefixLoader(loaders),
                jinja2.FileSystemLoader(self._directories),
            ]
        )
        self._env = self._environment()

    def render(self, name: str, values: dict[str, object]) -> str:
        """Returns the output of a template.

        Raises:
          TemplateError: it is missing or malformed, names what `values` lacks, or fails
            otherwise; told with template and line.
        """
        from kgen.emit.sandbox import bounded

        with _Told(self, name), bounded():
            return self._env.get_template(name).render(values)

    def lines(self, name: str, values: dict[str, object]) -> Lines | None:
        """Returns which line of which template yields each line of the output.

        None if that cannot be told, since a filter works on the output of others.
        """
        environment = self._environment()
        environment.code_generator_class = traced()
        try:
            marked = environment.get_template(name).render(values)
        except Exception:  # What the marks disturb; without them it renders.
            return None
        found = Lines(marked)
        return found if found.text == self.render(name, values) else None

    @functools.cache  # noqa: B019 - an environment lives as long as the process
    def digest(self, *names: str) -> str:
        """Returns the digest of templates and all that they extend, include or import.

        Raises:
          TemplateError: one is missing or malformed, or has a name that is not known
            before it is rendered.
        """
        sources: dict[str, str] = {}
        for name in names:
            self._collect(name, sources)
        text = "".join(
            f"{name}\0{source}\0" for name, source in sorted(sources.items())
        )
        return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]

    def place(self, name: str, line: int | None = None) -> str:
        """Returns how messages call a template, or a line of it.

        A shipped one by its name, any other by its file as seen from here.
        """
        return self._place_of_file(str(self._file(name) or name), line)

    def _file(self, name: str) -> Path | None:
        """Returns the file of a template; None if it is missing."""
        prefix, _, rest = name.partition("/")
        if not prefix or ".." in name.split("/"):
            return None  # Nothing outside of the directories is a template.
        if prefix in self._prefixes:
            files = [self._prefixes[prefix] / rest]
        else:
            files = [directory / name for directory in self._directories]
        return next((file for file in files if file.is_file()), None)

    def _place_of_file(self, file: str, line: int | None) -> str:
        path = Path(file)
        for directory in (*self._shipped, Path.cwd()):
            if path.is_relative_to(directory):
                path = path.relative_to(directory)
        return f"template {path}" + ("" if line is None else f", line {line}")

    def _environment(self) -> "jinja2.Environment":
        from kgen.emit.sandbox import Sandbox

        return Sandbox(self._loader)

    def _collect(self, name: str, sources: dict[str, str]) -> None:
        if name in sources:
            return
        with _Told(self, name):
            source, _, _ = self._loader.get_source(self._env, name)
            tree = self._env.parse(source, name)
        sources[name] = source
        if (lost := lost_block(tree, self._parsed)) is not None:
            line, text = lost
            raise TemplateError(f"{self.place(name, line)}: {text}")
        for node in _references(tree):
            written = _written_names(node)
            if written is None:
                raise TemplateError(
                    f"{self.place(name, node.lineno)}: the name of a template must be "
                    "written out here: the digest in the module covers what is used"
                )
            optional = getattr(node, "ignore_missing", False) or len(written) > 1
            for other in written:
                if self._file(other) is not None:
                    self._collect(other, sources)
                elif not optional:
                    place = self.place(name, node.lineno)
                    raise TemplateError(f"{place}: template {other} is missing")

    def _parsed(self, name: str) -> "jinja2.nodes.Template | None":
        """Returns a template as Jinja reads it; None if it is missing."""
        if self._file(name) is None:
            return None
        with _Told(self, name):
            source, _, _ = self._loader.get_source(self._env, name)
            return self._env.parse(source, name)


class _Told:
    """Turns whatever a template raises into a `TemplateError` with its place."""

    def __init__(self, templates: Templates, name: str) -> None:
        self._templates = templates
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, TemplateError):
            raise TemplateError(self._text(error)) from None

    def _text(self, error: Exception) -> str:
        import jinja2
        from jinja2.exceptions import SecurityError

        from kgen.emit.sandbox import TooMuchError

        place = self._templates.place
        match error:
            case jinja2.TemplateSyntaxError():
                at = place(error.name or self._name, error.lineno)
                return f"{at}: {error.message}"
            case jinja2.TemplateNotFound():
                return f"template {error.message or self._name} is missing"
            case jinja2.UndefinedError():
                what = str(error.message)
            case SecurityError():
                what = str(error).removesuffix(".")
                what += "\n  hint: a template may use the values that it is given"
            case TooMuchError():
                what = str(error)
            case RecursionError():
                what = "it includes, extends or calls itself without an end"
            case UnicodeDecodeError():
                return f"{place(self._name)} is not UTF-8 text"
            case OSError():
                return f"{place(self._name)} cannot be read: {error.strerror}"
            case _:
                what = f"{type(error).__name__}: {error}"
        return f"{self._innermost(error) or place(self._name)}: {what}"

    def _innermost(self, error: Exception) -> str | None:
        """Returns the template and line that raised, from Jinja's traceback."""
        place = None
        for frame, line in traceback.walk_tb(error.__traceback__):
            file = frame.f_code.co_filename
            if "__jinja_template__" in frame.f_globals or file.endswith(".jinja"):
                place = self._templates._place_of_file(file, line)
        return place


def _references(tree: "jinja2.nodes.Template") -> Iterator[Any]:
    """Yields what extends, includes or imports another template."""
    from jinja2 import nodes

    kinds = (nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)
    yield from tree.find_all(kinds)


def _written_names(node: Any) -> tuple[str, ...] | None:
    """Returns the names of templates that a node refers to; None if they are computed."""
    import jinja2.nodes

    named = node.template
    parts = named.items if isinstance(named, jinja2.nodes.List) else [named]
    if isinstance(named, jinja2.nodes.Tuple):
        parts = named.items
    names = tuple(p.value for p in parts if isinstance(p, jinja2.nodes.Const))
    whole = len(names) == len(parts) and all(isinstance(n, str) for n in names)
    return names if whole else None
