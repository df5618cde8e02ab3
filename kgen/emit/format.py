"""Formatting with black, and the checks that every text passes before it is used."""

import ast

from kgen.errors import TemplateError

LINE_LENGTH = 88


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
