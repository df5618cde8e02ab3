"""A candidate: the values that it gives to keys of the spec."""

import dataclasses

from kgen.spec.wording import write_value

type Value = bool | int | str | tuple[object, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """One point of the space.

    Attributes:
      values: The value of each key by its dotted name, in the order of the axes; None
        for a key that is left out, so that the planner decides.
    """

    values: tuple[tuple[str, Value | None], ...]

    def get(self, key: str) -> Value | None:
        """Returns the value of a key; None if it is left out."""
        return dict(self.values).get(key)

    @property
    def label(self) -> str:
        """What the candidate is called: `tile.m=128 tile.n=256 ...`."""
        return " ".join(
            f"{key}={write_value(value)}"
            for key, value in self.values
            if value is not None
        )
