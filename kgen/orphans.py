"""Which files no spec makes any more.

A module tells its spec: `specs/gemm/fp16.toml`, from the directory `specs` on. So it is
known whether the spec was one of those that are given now. Of a spec outside of such a
directory a module knows the name alone, which another spec may have too: it is never
taken for an orphan.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgen.emit.tree import Orphan
    from kgen.plan.base import Plan


def find_orphans(
    plans: "Sequence[Plan]", paths: Sequence[Path], out: Path
) -> "tuple[Orphan, ...]":
    """Returns kgen's files below `out` that were made from specs in `paths`, but that
    none of `plans` makes.

    Args:
      plans: The plans of all specs in `paths`.
      paths: Files and directories, as for `plan_all`.
      out: The output directory.

    Raises:
      FileError: a directory cannot be read.
    """
    from kgen.emit import tree

    expected = set()
    for plan in plans:
        expected.add(tree.output_of_module(out, plan.name, "").path)
        expected.add(tree.output_of_test(out, plan.name, "").path)
    return tree.find_orphans(out, expected, [*_places(paths)])


def _places(paths: Sequence[Path]) -> Iterator[str]:
    """Yields the files and directories of `paths` as a spec in them is named."""
    from kgen.spec.source import place_of

    for path in paths:
        # The name of a spec tells more about a directory than that of itself.
        any_spec = path / "any.toml" if path.is_dir() else path
        if "/" in (place := place_of(any_spec)):
            yield str(PurePosixPath(place).parent) if path.is_dir() else place
        elif (path / "specs").is_dir():
            yield "specs"
