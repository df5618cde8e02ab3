"""A spec together with the place it came from."""

import dataclasses

from kgen.errors import Problem
from kgen.spec.model import Spec


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourcedSpec:
    """One variant of a spec file.

    Attributes:
      spec: What the file says for this variant.
      path: The file as the user named it.
      lines: Line of every key, by its dotted name such as `tile.m`. For a key that a
        `[matrix]` sets, the line of the matrix entry.
      variant: The matrix values of this variant, such as `tile.n = 96`; else empty.
      digest: Hex digest of what the spec says, free of comments and layout.
    """

    spec: Spec
    path: str
    lines: dict[str, int]
    digest: str
    variant: str = ""

    @property
    def name(self) -> str:
        return self.spec.kernel.name

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
