"""Formatting with black, and the checks that every text passes before it is used."""

import ast

from kgen.emit.literals import LINE_LENGTH
from kgen.errors import TemplateError

# What the top level of a module or a test is made of, after the docstring.
STATEMENTS = (ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef, ast.If)


def check_data(text: str, doc: str, template: str) -> None:
    """Checks that the text of a spec has stayed data in rendered Python.

    Args:
      text: The rendered file.
      doc: What its docstring must begin with, white space apart.
      template: Name of the template, for messages.

    Raises:
      TemplateError: the docstring says something else, or there is a statement that no
        template means to yield.
    """
    module = ast.parse(text)
    words = (ast.get_docstring(module) or "").split()
    meant = doc.split()
    if words[: len(meant)] != meant:
        raise TemplateError(f"template {template} yields another docstring than meant")
    for statement in module.body[1:]:
        if not isinstance(statement, STATEMENTS):
            raise TemplateError(
                f"template {template} yields a statement on line {statement.lineno} "
                f"that does not belong there: {type(statement).__name__}"
            )


def format_source(text: str, template: str, *, prove: bool) -> str:
    """Returns Python source as black leaves it, by kgen's own settings.

    The user's configuration is not read: the same text gives the same bytes anywhere.

    Args:
      text: What the template yielded.
      template: Name of the template, for messages.
      prove: Whether black has to show that the meaning stays and that it would not
        change its own output; the text is the same either way.

    Raises:
      TemplateError: the text is no valid Python, or black cannot settle on a form.
    """
    import black
    from black.mode import TargetVersion
    from black.parsing import InvalidInput
    from black.report import NothingChanged

    try:
        ast.parse(text)
    except SyntaxError as error:
        raise TemplateError(
            f"template {template} yields invalid Python: {error.msg}, line "
            f"{error.lineno} of the output: {(error.text or '').strip()}"
        ) from None
    mode = black.Mode(target_versions={TargetVersion.PY312}, line_length=LINE_LENGTH)
    try:
        return black.format_file_contents(text, fast=not prove, mode=mode)
    except NothingChanged:
        return text
    except (InvalidInput, AssertionError) as error:
        raise TemplateError(
            f"black refuses the output of template {template}: {error}"
        ) from None
