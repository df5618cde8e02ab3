"""Which specs a directory of vendored kernels is made from."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kgen.emit.write import Output, read_text
from kgen.errors import FileError, UsageError
from kgen.spec.load import find_specs
from kgen.spec.source import place_of

if TYPE_CHECKING:
    from kgen.plan.base import Plan

SPECS = "specs"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """The specs, planned.

    Attributes:
      plans: What each spec yields. Their `spec_path` is the copy's, if specs are copied.
      copies: The specs' texts and where they are copied to; empty if they are not.
      within: Directories of specs, and specs, that are spoken of: of other files in the
        lock nothing is known. An empty text stands for all.
      outside: Whether specs are spoken of that lie in no directory called specs.
    """

    plans: "tuple[Plan, ...]"
    copies: tuple[Output, ...]
    within: tuple[str, ...]
    outside: bool

    def speak_of(self, spec: str) -> bool:
        """Whether `spec` is one of these, or would be, if it was there."""
        if not self.outside and not spec.startswith(f"{SPECS}/"):
            return False
        rest = PurePosixPath(_below_specs(spec))
        return any(rest.is_relative_to(place) for place in self.within)


def load(dest: Path, places: Sequence[Path], *, copied: bool) -> Sources:
    """Returns the specs in `places`.

    Args:
      dest: The directory of vendored kernels.
      places: Spec files and directories of them. The specs of what their modules import
        from beside them come along.
      copied: Whether copies of the specs belong into `specs` of `dest`.

    Raises:
      SpecError: specs are invalid; every problem of every spec is told.
      FileError: a file cannot be read.
      UsageError: there are no specs, or two would have one copy.
    """
    from kgen.pipeline import plan_all

    plans = plan_all(places)
    if needed := _needed(plans, find_specs(places)):
        places = (*places, *needed)
        plans = plan_all(places)
    copies: tuple[Output, ...] = ()
    if copied:
        copies = _copies(dest, find_specs(places))
        plans = tuple(
            dataclasses.replace(plan, spec_path=_copied(plan.spec_path))
            for plan in plans
        )
    return Sources(
        plans=plans,
        copies=copies,
        within=tuple(map(_place_within, places)),
        outside=copied or not all(_lies_in_specs(place) for place in places),
    )


def _needed(plans: "Sequence[Plan]", files: Sequence[Path]) -> tuple[Path, ...]:
    """Returns the specs of what modules import from beside them."""
    from kgen import operations

    found: dict[Path, None] = {}
    file_of = {place_of(file): file for file in files}
    for plan in plans:
        for needed in operations.call(operations.get(plan.op), "needs", plan):
            name = PurePosixPath(needed.spec_path).name
            found[file_of[plan.spec_path].with_name(name)] = None
    return tuple(found)


def _copies(dest: Path, files: Sequence[Path]) -> tuple[Output, ...]:
    found: dict[Path, Path] = {}
    outputs = []
    for file in files:
        target = dest / _copied(place_of(file))
        first = found.setdefault(target, file)
        if first is not file:
            raise UsageError(
                f"{first} and {file} would both be copied to {target}\n"
                "  hint: keep specs below a directory called specs, or rename one"
            )
        text = read_text(file)
        if text is None:
            raise FileError(f"{file} is not UTF-8 text any more")
        outputs.append(Output(path=target, text=text))
    return tuple(outputs)


def _copied(place: str) -> str:
    return f"{SPECS}/{_below_specs(place)}"


def _below_specs(place: str) -> str:
    return place.removeprefix(f"{SPECS}/")


def _place_within(path: Path) -> str:
    """Returns what a place of specs speaks of, below `specs`."""
    place = PurePosixPath(_place(path))
    if not path.is_dir():
        return _below_specs(str(place))
    within = place.parent
    return "" if within.parts in ((), (SPECS,)) else _below_specs(str(within))


def _lies_in_specs(path: Path) -> bool:
    """Whether a place of specs is a directory called specs, or in one."""
    return _place(path).startswith(f"{SPECS}/")


def _place(path: Path) -> str:
    # A spec in it tells more about a directory than its own name.
    return place_of(path / "any.toml" if path.is_dir() else path)
