"""Rendering: from a plan to the text of a module and of its standalone test."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

from kgen import __version__, operations
from kgen.emit import provenance
from kgen.emit.checks import OutputError, check
from kgen.emit.format import format_source
from kgen.emit.templates import DIGEST_LENGTH, Templates
from kgen.errors import TemplateError
from kgen.plan.base import Plan
from kgen.resources import templates_dir


@dataclasses.dataclass(frozen=True, kw_only=True)
class Module:
    """The text of one generated module.

    Attributes:
      name: Name of the module.
      source: Text of the module.
      test_source: Text of its standalone test.
      template_digest: Digest of the templates that the module was made from.
      test_template_digest: Digest of those of the test.
      imports: Names of the modules that it imports from beside it.
    """

    name: str
    source: str
    test_source: str
    template_digest: str
    test_template_digest: str
    imports: tuple[str, ...] = ()


@functools.cache
def _environment(
    directories: tuple[Path, ...], shipped: Path, op: str, own: Path
) -> Templates:
    own_prefix = {} if own == shipped else {op: own}
    return Templates(directories, shipped={**own_prefix, "kgen": shipped})


def render(
    plan: Plan,
    *,
    templates: tuple[Path, ...] = (),
    verified: bool,
    prove: bool = True,
) -> Module:
    """Returns the final text of a plan's files: formatted, checked and stamped.

    Args:
      plan: What to render.
      templates: Directories whose templates come before the shipped ones; the first
        that has a name wins.
      verified: Whether the provenance says verified; the caller sees to it that it is.
      prove: Whether to prove the formatting, see `format_source`. Without it a text is
        good for a comparison only.

    Raises:
      TemplateError: a template is wrong.
    """
    environment = _environment_of(plan.op, templates)
    operation = operations.get(plan.op)
    module_name, test_name = f"{plan.op}.py.jinja", f"test_{plan.op}.py.jinja"
    digest, test_digest = map(environment.digest, (module_name, test_name))
    values = _values(plan, digest, verified=verified)
    # What changes the test alone leaves the module, and its verification, as they are.
    of_test = {
        "spec_digest": plan.test_digest[:DIGEST_LENGTH],
        "template_digest": test_digest,
    }
    test_values: dict[str, object] = {**values, **of_test}
    module_text = _checked(
        environment,
        module_name,
        values,
        plan.doc,
        operations.call(operation, "constants", plan),
    )
    test_text = _checked(environment, test_name, test_values, "", {})
    finish = functools.partial(_finish, environment, prove=prove)
    return Module(
        name=plan.name,
        source=finish(module_name, module_text, values=values),
        test_source=finish(test_name, test_text, values=test_values),
        template_digest=digest,
        test_template_digest=test_digest,
        imports=tuple(
            needed.name for needed in operations.call(operation, "needs", plan)
        ),
    )


def render_unformatted(plan: Plan, *, templates: tuple[Path, ...] = ()) -> str:
    """Returns a plan's module as its template yields it, to be run and thrown away.

    It needs no black, and is as good as rendered to whoever does not read it.

    Raises:
      TemplateError: a template is wrong.
    """
    environment = _environment_of(plan.op, templates)
    name = f"{plan.op}.py.jinja"
    values = _values(plan, environment.digest(name), verified=False)
    return environment.render(name, values)


def template_digest(op: str, *, templates: tuple[Path, ...] = ()) -> str:
    """Returns the digest of the templates that an operation's modules are made from.

    Raises:
      TemplateError: a template is missing or malformed.
    """
    return _environment_of(op, templates).digest(f"{op}.py.jinja")


def _environment_of(op: str, templates: tuple[Path, ...]) -> Templates:
    # What is kept by its name must not depend on the current directory.
    directories = tuple(directory.absolute() for directory in templates)
    shipped = templates_dir()
    own = shipped if op in operations.OWN else operations.get(op).templates
    return _environment(directories, shipped, op, own)


def _values(plan: Plan, digest: str, *, verified: bool) -> dict[str, object]:
    """Returns what the templates of a module place."""
    return {
        **operations.call(operations.get(plan.op), "view", plan),
        "kgen_version": __version__,
        "op": plan.op,
        "spec_path": plan.spec_path,
        "spec_digest": plan.spec_digest[:DIGEST_LENGTH],
        "template_digest": digest,
        "text_digest": provenance.NO_DIGEST,
        "verified": provenance.levels_text(plan.allow) if verified else "unverified",
    }


def _checked(
    environment: Templates,
    name: str,
    values: dict[str, object],
    doc: str,
    constants: Mapping[str, object],
) -> str:
    """Returns what a template yields, if that is what it may yield."""
    text = environment.render(name, values)
    try:
        check(text, doc=doc, constants=constants)
    except OutputError as error:
        place = _place(environment, name, values, error.line)
        raise TemplateError(f"{place}: {error}") from None
    return text


def _finish(
    environment: Templates,
    name: str,
    text: str,
    *,
    values: dict[str, object],
    prove: bool,
) -> str:
    """Returns a text formatted and stamped."""
    text = format_source(text, name, prove=prove)
    _check_provenance(text, environment.place(name), values)
    return provenance.stamp(text)


def _place(
    environment: Templates, name: str, values: dict[str, object], line: int
) -> str:
    """Returns the template and line that yield a line of the output."""
    lines = environment.lines(name, values)
    found = None if lines is None else lines.place(line)
    if found is None:
        return f"{environment.place(name)}, at line {line} of its output"
    return environment.place(*found)


def _check_provenance(text: str, place: str, values: Mapping[str, object]) -> None:
    """Checks that a text says of its making what is true.

    Raises:
      TemplateError: it says something else, or nothing.
    """
    found = provenance.read(text)
    if found is None:
        raise TemplateError(
            f"{place} drops the provenance comment\n"
            '  hint: {% include "partials/provenance.jinja" %} right after the docstring'
        )
    said = {
        "kgen_version": found.version,
        "op": found.template,
        "spec_path": found.spec,
        "spec_digest": found.spec_digest,
        "template_digest": found.template_digest,
        "text_digest": found.text_digest,
    }
    for key, value in said.items():
        if value != values[key]:
            raise TemplateError(
                f"{place} changes the provenance comment: it says {value!r},"
                f" where {values[key]!r} is true"
            )
    if found.verified != (values["verified"] != "unverified"):
        raise TemplateError(
            f"{place} changes the provenance comment: whether the module is verified"
        )
