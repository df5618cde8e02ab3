"""Formatting with black, by kgen's own settings."""

from kgen.emit.literals import LINE_LENGTH
from kgen.errors import TemplateError


def format_source(text: str, template: str, *, prove: bool) -> str:
    """Returns Python source as black leaves it, by kgen's own settings.

    The user's configuration is not read: the same text gives the same bytes anywhere.

    Args:
      text: What the template yielded: valid Python.
      template: Name of the template, for messages.
      prove: Whether black has to show that the meaning stays and that it would not
        change its own output; the text is the same either way.

    Raises:
      TemplateError: black cannot settle on a form.
    """
    import black
    from black.mode import TargetVersion
    from black.parsing import InvalidInput
    from black.report import NothingChanged

    mode = black.Mode(target_versions={TargetVersion.PY312}, line_length=LINE_LENGTH)
    try:
        return black.format_file_contents(text, fast=not prove, mode=mode)
    except NothingChanged:
        return text
    except (InvalidInput, AssertionError) as error:
        raise TemplateError(
            f"black refuses the output of template {template}: {error}"
        ) from None
