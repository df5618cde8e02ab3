"""Rendering: from a plan to the text of a module and of its standalone test."""

import dataclasses
import functools
from pathlib import Path

from kgen import __version__
from kgen.emit import matmul
from kgen.emit.format import check_data, format_source
from kgen.emit.provenance import levels_text, stamp
from kgen.emit.templates import DIGEST_LENGTH, Templates
from kgen.plan.model import Plan
from kgen.resources import templates_dir

VIEWS = {"matmul": matmul.view}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Module:
    """The text of one generated module.

    Attributes:
      name: Name of the module.
      source: Text of the module.
      test_source: Text of its standalone test.
      template_digest: Digest of the templates that both were made from.
    """

    name: str
    source: str
    test_source: str
    template_digest: str


@functools.cache
def _environment(directories: tuple[Path, ...]) -> Templates:
    return Templates(directories)


def render(
    plan: Plan, *, templates: Path | None = None, verified: bool, prove: bool = True
) -> Module:
    """Returns the final text of a plan's files: formatted, checked and stamped.

    Args:
      plan: What to render.
      templates: A directory whose templates come before the shipped ones.
      verified: Whether the provenance says verified; the caller sees to it that it is.
      prove: Whether to prove the formatting, see `format_source`. Without it a text is
        good for a comparison only.

    Raises:
      TemplateError: a template is wrong.
    """
    directories = (
        (templates_dir(),) if templates is None else (templates, templates_dir())
    )
    environment = _environment(directories)
    module_name, test_name = f"{plan.op}.py.jinja", f"test_{plan.op}.py.jinja"
    digest = environment.digest(module_name, test_name)
    values = {
        **VIEWS[plan.op](plan),
        "kgen_version": __version__,
        "op": plan.op,
        "spec_path": plan.spec_path,
        "spec_digest": plan.spec_digest[:DIGEST_LENGTH],
        "template_digest": digest,
        "text_digest": "0" * DIGEST_LENGTH,
        "verified": levels_text(plan.allow) if verified else "unverified",
    }
    source, test_source = (
        stamp(format_source(environment.render(name, values), name, prove=prove))
        for name in (module_name, test_name)
    )
    check_data(source, plan.doc, module_name)
    check_data(test_source, "", test_name)
    return Module(
        name=plan.name, source=source, test_source=test_source, template_digest=digest
    )
