"""A spec together with the place it came from."""

import dataclasses
from pathlib import Path

from kgen.errors import Problem
from kgen.spec.model import AnySpec

# What marks the root of a project: no `specs` above it belongs to the project.
PROJECT_MARKS = (".git", "pyproject.toml")


def place_of(path: Path) -> str:
    """Returns a path of a spec as its project names it: from its `specs` directory on.

    The same for every checkout and whatever the current directory; of a file outside a
    directory `specs` the name alone.
    """
    path = path.resolve()
    for parent in path.parents:
        if parent.name == "specs":
            return path.relative_to(parent.parent).as_posix()
        if any((parent / mark).exists() for mark in PROJECT_MARKS):
            break
    return path.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourcedSpec:
    """One variant of a spec file.

    Attributes:
      spec: What the file says for this variant.
      path: The file as the user named it.
      lines: Line of every key, by its dotted name such as `tile.m`. For a key that a
        `[matrix]` sets, the line of the matrix entry.
      variant: The matrix values of this variant, such as `tile.n = 96`; else empty.
      digest: Hex digest of what the spec says about the module, free of comments and
        layout.
      test_digest: The same of all that it says, for the standalone test.
    """

    spec: AnySpec
    path: str
    lines: dict[str, int]
    digest: str
    test_digest: str
    variant: str = ""

    @property
    def name(self) -> str:
        return self.spec.kernel.name

    @property
    def place(self) -> str:
        """The file as the project names it: see `place_of`."""
        return place_of(Path(self.path))

    def line_of(self, key: str) -> int | None:
        """Returns the line of `key`, or of the closest table around it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key.rpartition(".")[0]
        return None

    def problem(
        self,
        key: str,
        code: str,
        message: str,
        *,
        allowed: str | None = None,
        hint: str | None = None,
    ) -> Problem:
        """Returns a finding about the value of `key`, and tells the variant."""
        if self.variant and self.variant not in message:
            message = f"{message}, for {self.variant}"
        return Problem(
            path=self.path,
            line=self.line_of(key),
            code=code,
            message=message,
            allowed=allowed,
            hint=hint,
        )
