"""What is replaced in JAX while kernels are simulated, and put back afterwards.

Whoever simulates in a process may use JAX's own interpreter in it as well.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

_MISSING = object()


class Patches:
    """Attributes that are replaced as long as a block runs."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._complete = False

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Replaces an attribute of a module or class until the block ends."""
        before = vars(owner).get(name, _MISSING)
        self._replaced.append((owner, name, before, value))
        setattr(owner, name, value)

    @contextlib.contextmanager
    def applied(self, *install: Callable[[], None]) -> Iterator[None]:
        """Has everything replaced in the block.

        Args:
          install: Functions that call `replace`; called in the first block only.
        """
        for owner, name, _, value in self._replaced:
            setattr(owner, name, value)
        try:
            if not self._complete:
                for each in install:
                    each()
                self._complete = True
            yield
        finally:
            for owner, name, before, _ in reversed(self._replaced):
                if before is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)


PATCHES = Patches()
