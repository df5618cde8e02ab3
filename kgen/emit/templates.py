"""The Jinja environment of the templates."""

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.errors import TemplateError

if TYPE_CHECKING:
    import jinja2

DIGEST_LENGTH = 12


class Templates:
    """The templates of one or more directories; the first that has a name wins."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        import jinja2

        self._env = jinja2.Environment(
            loader=jinja2.FileSystemLoader(list(directories)),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,  # noqa: S701 - the output is Python, not HTML
        )

    def render(self, name: str, values: dict[str, object]) -> str:
        """Returns the output of a template.

        Raises:
          TemplateError: it is missing or malformed, or names what `values` lacks.
        """
        import jinja2

        try:
            return self._env.get_template(name).render(values)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"template {error.name}, line {error.lineno}: {error.message}"
            ) from None
        except jinja2.TemplateNotFound as error:
            raise TemplateError(f"template {error.name} is missing") from None
        except jinja2.UndefinedError as error:
            raise TemplateError(f"{_innermost(error, name)}: {error.message}") from None

    @functools.cache  # noqa: B019 - an environment lives as long as the process
    def digest(self, *names: str) -> str:
        """Returns the digest of templates and all that they include."""
        sources: dict[str, str] = {}
        for name in names:
            self._collect(name, sources)
        text = "".join(
            f"{name}\0{source}\0" for name, source in sorted(sources.items())
        )
        return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]

    def _collect(self, name: str, sources: dict[str, str]) -> None:
        import jinja2
        import jinja2.meta

        if name in sources:
            return
        try:
            assert self._env.loader is not None
            source, _, _ = self._env.loader.get_source(self._env, name)
            tree = self._env.parse(source, name)
        except jinja2.TemplateNotFound:
            raise TemplateError(f"template {name} is missing") from None
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"template {name}, line {error.lineno}: {error.message}"
            ) from None
        sources[name] = source
        for other in jinja2.meta.find_referenced_templates(tree):
            if other is not None:
                self._collect(other, sources)


def _innermost(error: "jinja2.UndefinedError", name: str) -> str:
    """Returns the template and line where an undefined name was used."""
    place, traceback = f"template {name}", error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if (
            "__jinja_template__" in frame.f_globals
            or frame.f_code.co_filename.endswith(".jinja")
        ):
            file = Path(frame.f_code.co_filename).name
            place = f"template {file}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
