"""A directory of vendored kernels: what its project file and its lock say."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from kgen import __version__
from kgen.emit import provenance, tree
from kgen.emit.matmul import JAX_RANGE
from kgen.emit.placement import PLAIN, Placement
from kgen.emit.write import Output, State, Target, read_text
from kgen.errors import FileError, UsageError
from kgen.project import Project, find_project
from kgen.vendor import lockfile
from kgen.vendor.lockfile import Entry, Kind, Lock, Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """A directory of vendored kernels.

    Attributes:
      path: The directory, as the user named it.
      lock: What its lock file says; None if there is none.
      placement: How its project wants modules.
      copies: Whether its project wants copies of the specs.
    """

    path: Path
    lock: Lock | None
    placement: Placement
    copies: bool

    @property
    def lock_path(self) -> Path:
        return self.path / lockfile.FILE

    @property
    def settings(self) -> Settings:
        """The placement, as the lock tells it."""
        header = self.placement.header
        return Settings(
            package=self.placement.package,
            relative_imports=self.placement.relative_imports,
            header=lockfile.digest_of(header) if header else None,
        )

    @property
    def entries(self) -> tuple[Entry, ...]:
        return () if self.lock is None else self.lock.files

    def name_of(self, path: Path) -> str:
        """Returns a file's path as the lock tells it."""
        return path.relative_to(self.path).as_posix()

    def package_files(self) -> tuple[Output, ...]:
        """Returns the files that make packages of directories, for relative imports.

        Whatever such a file holds is the repository's matter.
        """
        if not self.placement.relative_imports:
            return ()
        directories = (self.path, self.path / "tests")
        return tuple(Output(path=d / "__init__.py", text="") for d in directories)

    def locked_with(self, good: Iterable[Entry], gone: Iterable[str]) -> Lock:
        """Returns the lock for when files are written.

        Args:
          good: Entries of the files that are what they should be.
          gone: Paths of files that kgen does not keep any more.
        """
        good = tuple(good)
        replaced = {entry.path for entry in good} | {*gone}
        files = [entry for entry in self.entries if entry.path not in replaced]
        files = sorted([*files, *good], key=lambda entry: entry.path)
        return Lock(
            kgen=__version__, jax=JAX_RANGE, vendor=self.settings, files=tuple(files)
        )


def open_place(path: Path) -> Place:
    """Returns what is known of a directory, which need not exist.

    Raises:
      SpecError: its project file is invalid.
      FileError: it is no directory, or its lock file is damaged.
    """
    if path.exists() and not path.is_dir():
        raise FileError(f"{path} is not a directory")
    project = find_project(path)
    placement = PLAIN if project is None else project.placement
    lock = lockfile.read(path)
    refuse_links(path, (path / entry.path for entry in lock.files) if lock else ())
    return Place(
        path=path,
        lock=lock,
        placement=dataclasses.replace(placement, vendored=True),
        copies=project is not None and project.copies_specs,
    )


def refuse_rendered(place: Place, projects: Iterable[Project | None]) -> None:
    """Refuses a directory that `kgen render` keeps: it would write there no more.

    Args:
      place: The directory. One with a lock file is that of `kgen vendor` already.
      projects: Those whose modules may belong there.

    Raises:
      UsageError: it is one.
      FileError: it cannot be read.
    """
    if place.lock is not None:
        return
    here = place.path.resolve()
    named = [p for p in projects if p and p.renders and p.out.resolve() == here]
    rendered = None if named else tree.find_rendered(place.path)
    if named:
        found = f"is where `kgen render` writes to: `out` of {named[0].path}"
    elif rendered is not None:
        found = (
            f"has files of `kgen render`, such as {rendered}, and no {lockfile.FILE}"
        )
    else:
        return
    raise UsageError(
        f"{place.path} {found}\n"
        f"  allowed: a directory that has a {lockfile.FILE}, or nothing of `kgen render`\n"
        "  hint: choose another directory; `kgen render` keeps the files in this one"
    )


def refuse_links(directory: Path, paths: Iterable[Path]) -> None:
    """Checks that nothing below `directory` is reached through a symbolic link.

    Raises:
      FileError: something is.
    """
    for path in paths:
        parents = [p for p in path.parents if p != directory]
        inside = [p for p in parents if p.is_relative_to(directory)]
        for step in (path, *inside):
            if step.is_symlink():
                raise FileError(
                    f"{step} is a symbolic link, which kgen vendor does not follow\n"
                    "  hint: replace it by what it leads to"
                )


def entry_of(place: Place, output: Output, kind: Kind) -> Entry:
    """Returns the lock's entry of a module or a test."""
    made = provenance.read(output.text)
    assert made is not None, "what was rendered has its provenance"
    return Entry(
        path=place.name_of(output.path),
        kind=kind,
        sha256=lockfile.digest_of(output.text),
        spec=made.spec,
        spec_digest=made.spec_digest,
        template_digest=made.template_digest,
    )


def entry_of_copy(place: Place, output: Output) -> Entry:
    """Returns the lock's entry of a copy of a spec."""
    name = place.name_of(output.path)
    digest = lockfile.digest_of(output.text)
    return Entry(path=name, kind=Kind.SPEC, sha256=digest, spec=name)


def inspect_copy(place: Place, output: Output) -> Target:
    """Returns how the file where the copy of a spec belongs compares with it.

    Raises:
      FileError: the file cannot be read.
    """
    if not output.path.exists():
        return Target(output=output, state=State.MISSING, old=None)
    old = read_text(output.path)
    known = place.lock.entry(place.name_of(output.path)) if place.lock else None
    if old is None:
        state = State.FOREIGN
    elif provenance.normalise(old) == provenance.normalise(output.text):
        state = State.UNCHANGED
    elif known is None:
        state = State.FOREIGN
    else:
        untouched = known.sha256 == lockfile.digest_of(old)
        state = State.DIFFERS if untouched else State.EDITED
    return Target(output=output, state=state, old=old)


def is_untouched(place: Place, entry: Entry) -> bool:
    """Whether a file is as kgen wrote it. A lock alone is no proof of that for a
    Python file: its own header must say so.

    Raises:
      FileError: the file cannot be read.
    """
    text = read_text(place.path / entry.path)
    if text is None:
        return False
    if entry.kind is Kind.SPEC:
        return entry.sha256 == lockfile.digest_of(text)
    made = provenance.read(text)
    return made is not None and made.intact and made.spec == entry.spec
