"""What can go wrong, and how it is told.

A `Problem` is one finding about the user's input. Stages collect problems and raise
them together, so that one run tells everything that is wrong.
"""

import dataclasses
import enum


class ExitCode(enum.IntEnum):
    """The exit codes of every command."""

    OK = 0
    DIFFERS = 1
    USAGE = 2
    INVALID_SPEC = 3
    NOT_VERIFIED = 4
    IO = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong with an input.

    Attributes:
      path: The file as the user named it.
      line: Line of the offending text, from 1; None where there is no such line.
      code: Code of the rule, for example `KG101`.
      message: What was found.
      allowed: What would be accepted, or None.
      hint: What to do next, or None.
    """

    path: str
    line: int | None
    code: str
    message: str
    allowed: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        lines = [f"{place}: {self.code} {self.message}"]
        if self.allowed is not None:
            lines.append(f"  allowed: {self.allowed}")
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class KgenError(Exception):
    """An error that a command reports as text, without a traceback."""

    exit_code = ExitCode.USAGE


class UsageError(KgenError):
    """The command line asks for something that cannot be done."""

    exit_code = ExitCode.USAGE


class SpecError(KgenError):
    """One or more specs are invalid."""

    exit_code = ExitCode.INVALID_SPEC

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class FileError(KgenError):
    """A file could not be read or written."""

    exit_code = ExitCode.IO


class TemplateError(KgenError):
    """A template is wrong: it names what the plan lacks, or yields no valid Python."""

    exit_code = ExitCode.NOT_VERIFIED


class VerificationError(KgenError):
    """A module failed a verification level; it was not written."""

    exit_code = ExitCode.NOT_VERIFIED
