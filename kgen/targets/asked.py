"""What the command line asks for, and what is made of it."""

import dataclasses
from pathlib import Path

from kgen.errors import KgenError, UsageError
from kgen.verify.request import Request


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """How the command line asks.

    Attributes:
      shapes: Texts of `--shape`; without any, the spec's or module's own sizes.
      dtype: Elements of A and B where a function is asked as a matmul.
      reference: Name of the function that computes what is right, if it is told.
      templates: Directories whose templates come before the shipped ones.
      jobs: Specs that are rendered at once.
      out: Where the modules of specs may lie, so that a place in one can be told.
    """

    shapes: tuple[str, ...] = ()
    dtype: str = "float16"
    reference: str | None = None
    templates: tuple[Path, ...] = ()
    jobs: int = 1
    out: Path | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """One module or function.

    Attributes:
      label: What it is called, as the user would name it.
      request: What the verifier is asked; None if that cannot be made.
      error: Why it cannot.
      path: Its file: that of a function, a module, or a spec. For a spec it is the
        module that it yields if that lies there, byte for byte.
    """

    label: str
    request: Request | None = None
    error: KgenError | None = None
    path: str | None = None


def refuse_reference(asked: Asked) -> None:
    """Refuses a reference for what has one of its own.

    Raises:
      UsageError: there is one.
    """
    if asked.reference is not None:
        raise UsageError("--reference goes with PATH.py:FUNCTION alone")
