"""The text of a Python file, and the name by which it is imported."""

import re
from pathlib import Path

from kgen.errors import FileError


def read(path: Path) -> str:
    """Returns the text of a file.

    Raises:
      FileError: it cannot be read, or is not Python.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        compile(text, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is not UTF-8 text") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{path}:{line}" if line else f"{path}"
        raise FileError(f"{place} is not Python: {error}") from None
    return text


def module_name(path: Path) -> str:
    """Returns a name by which a file can be imported, whatever its own is."""
    name = re.sub(r"\W", "_", path.stem)
    return name if name.isidentifier() else f"_{name}"
