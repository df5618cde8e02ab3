"""Placeholders such as `{tile.n}` in `kernel.name` and `kernel.doc`.

They are replaced by a regular expression over exactly the keys of `[matrix]`: a text
is never a format string.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kgen.spec.keys import DOC, NAME, Finding, closest, get, set_value, show_pair
from kgen.spec.locate import KeyPath
from kgen.spec.wording import show, write_key, write_value

# Doubled braces are text.
_PLACEHOLDER = re.compile(r"(?<!\{)\{([^{}\n]*)\}(?!\})")
# In a doc, so is anything between braces that does not look like a key of the spec.
_DOTTED_KEY = re.compile(r"[a-z_]+(\.[a-z_]+)+")


def check(
    base: dict[str, Any], axes: Mapping[KeyPath, Sequence[Any]]
) -> Iterator[Finding]:
    """Yields the placeholders that cannot be filled in.

    Args:
      base: The document without `[matrix]`.
      axes: The values of every key that `[matrix]` sets.
    """
    keys = {write_key(path): values for path, values in axes.items()}
    allowed = ", ".join(f"{{{key}}}" for key in keys)
    for path in (NAME, DOC):
        text = get(base, path)
        if not isinstance(text, str):
            continue
        for placeholder in dict.fromkeys(_PLACEHOLDER.findall(text)):
            if placeholder in keys:
                continue
            if path == NAME or _DOTTED_KEY.fullmatch(placeholder):
                near = closest(placeholder, [*keys])
                yield Finding(
                    path=path,
                    code="KG010",
                    message=f"{write_key(path)} has the placeholder"
                    f" {{{show(placeholder)[1:-1]}}}, which [matrix] does not set",
                    allowed=allowed,
                    hint=None if near is None else f"did you mean {{{near}}}?",
                )
    yield from _unfit_for_names(get(base, NAME), keys, allowed)


def _unfit_for_names(
    name: Any, keys: Mapping[str, Sequence[Any]], allowed: str
) -> Iterator[Finding]:
    if not isinstance(name, str):
        return
    for placeholder in dict.fromkeys(_PLACEHOLDER.findall(name)):
        if any(isinstance(value, tuple) for value in keys.get(placeholder, ())):
            yield Finding(
                path=NAME,
                code="KG010",
                message=f"kernel.name has the placeholder {{{placeholder}}}, whose"
                " values are arrays",
                allowed="keys whose values are strings, integers or booleans",
            )
    if re.search("[{}]", _PLACEHOLDER.sub("", name)):
        yield Finding(
            path=NAME,
            code="KG010",
            message=f"{show_pair(NAME, name)} has a brace that belongs to no"
            " placeholder",
            allowed=allowed,
        )


def fill(data: dict[str, Any], settings: Mapping[KeyPath, Any]) -> None:
    """Replaces the placeholders in the name and the doc of one variant."""
    texts = {
        write_key(path): value if isinstance(value, str) else write_value(value)
        for path, value in settings.items()
    }
    for path in (NAME, DOC):
        text = get(data, path)
        if isinstance(text, str):
            filled = _PLACEHOLDER.sub(lambda match: texts.get(match[1], match[0]), text)
            set_value(data, path, filled)
