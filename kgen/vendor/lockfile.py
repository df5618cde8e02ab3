"""`kgen.lock`: which files kgen keeps in a directory, and what they were made from.

It lies in a repository, where anybody may have written it: nothing is done because of a
path in it but to files of the kinds that kgen makes, in the places where it makes them.
"""

import enum
import hashlib
import re
from pathlib import Path
from typing import Annotated, Any

import pydantic

from kgen.emit.provenance import normalise
from kgen.errors import FileError, SpecError
from kgen.spec.document import document_of, text_of
from kgen.spec.locate import locate
from kgen.spec.model import Table
from kgen.spec.wording import show, write_key, write_value

FILE = "kgen.lock"
FORMAT = 1

_HEAD = "# Written by `kgen vendor`, and not to be edited: `kgen vendor --update` does it.\n"


class Kind(enum.StrEnum):
    """What a file is."""

    MODULE = "module"
    TEST = "test"
    SPEC = "spec"


# Where files of a kind lie.
_PLACES = {
    Kind.MODULE: r"[A-Za-z_]\w*\.py",
    Kind.TEST: r"tests/test_[A-Za-z_]\w*\.py",
    Kind.SPEC: r"specs/(?:[^/]+/)*[^/]+\.toml",
}

Sha256 = Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]
Digest = Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{12}$")]


class Entry(Table):
    """One file."""

    path: str
    """Where it lies, from the lock file's directory on."""
    kind: Annotated[Kind, pydantic.Field(strict=False)]
    """What it is."""
    sha256: Sha256
    """Digest of its text with LF line ends."""
    spec: str
    """The spec that it was made from, as its header names it."""
    spec_digest: Digest | None = None
    """Digest of what the spec says."""
    template_digest: Digest | None = None
    """Digest of the templates."""

    @pydantic.model_validator(mode="after")
    def _lies_where_kgen_writes(self) -> "Entry":
        inside = ".." not in self.path.split("/") and self.path.isprintable()
        if not inside or not re.fullmatch(_PLACES[self.kind], self.path, re.ASCII):
            raise ValueError(f"kgen writes no {self.kind} there")
        return self


class Settings(Table):
    """How the files were placed."""

    package: str = ""
    relative_imports: bool = False
    header: Sha256 | None = None
    """Digest of the header's text."""


class Lock(Table):
    """What a lock file says."""

    version: int = FORMAT
    kgen: str
    """Version of the kgen that wrote it."""
    jax: str
    """Versions of JAX that the modules are made for."""
    vendor: Settings = Settings()
    files: tuple[Entry, ...] = ()

    def entry(self, path: str) -> Entry | None:
        return next((entry for entry in self.files if entry.path == path), None)

    def of_kind(self, kind: Kind) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.files if entry.kind is kind)


def digest_of(text: str) -> str:
    """Returns the digest of a text, whatever the line ends of its checkout."""
    return hashlib.sha256(normalise(text).encode(errors="surrogateescape")).hexdigest()


def read(directory: Path) -> Lock | None:
    """Returns what the lock file of a directory says; None if there is none.

    Raises:
      FileError: it cannot be read, is damaged or from a newer kgen, or names a place
        where kgen writes nothing.
    """
    path = directory / FILE
    if path.is_symlink():
        raise FileError(f"{path} is a symbolic link\n{_repair(path)}")
    if not path.exists():
        return None
    try:
        text = text_of(path, str(path))
        document = document_of(text, str(path))
    except SpecError as error:
        reason = re.sub(r"KG\d+ ", "", str(error).split("\n")[0])
        raise FileError(f"{reason}\n{_repair(path)}") from None
    version = document.get("version")
    if type(version) is int and version > FORMAT:
        by = document.get("kgen")
        raise FileError(
            f"{path} has format {version}, and this kgen knows formats up to {FORMAT}\n"
            f"  hint: use the kgen that wrote it{f': {by}' if by else ''}, or a newer one"
        )
    if type(version) is not int or version < 1:
        found = "it has no version"
        if version is not None:
            found = f"version = {show(version)}, where kgen writes {FORMAT}"
        raise FileError(f"{path} is no lock file of kgen: {found}\n{_repair(path)}")
    try:
        lock = Lock.model_validate(document)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise _fault(path, text, first) from None
    _check_unique(path, lock)
    return lock


def write_text(lock: Lock) -> str:
    """Returns the text of a lock file: the same for the same files, in any order."""
    blocks = [_pairs(version=lock.version, kgen=lock.kgen, jax=lock.jax)]
    settings = lock.vendor.model_dump(exclude_defaults=True)
    if settings:
        blocks.append(f"[vendor]\n{_pairs(**settings)}")
    for entry in sorted(lock.files, key=lambda entry: entry.path):
        blocks.append(f"[[files]]\n{_pairs(**entry.model_dump(exclude_none=True))}")
    return _HEAD + "\n".join(blocks)


def _pairs(**values: object) -> str:
    lines = (f"{write_key([key])} = {write_value(v)}\n" for key, v in values.items())
    return "".join(lines)


def _repair(path: Path) -> str:
    """Returns what to do with a lock file that is none."""
    again = f"kgen vendor --update {path.parent}"
    return f"  hint: restore it from git, or delete it and run `{again}`"


def _check_unique(path: Path, lock: Lock) -> None:
    seen = set[str]()
    for entry in lock.files:
        if entry.path.lower() in seen:
            raise FileError(f"{path} names {entry.path} twice\n{_repair(path)}")
        seen.add(entry.path.lower())


def _fault(path: Path, text: str, detail: Any) -> FileError:
    key = tuple(detail["loc"])
    place = key
    lines = locate(text)
    while place and place not in lines:
        place = place[:-1]
    where = f"{path}:{lines[place]}" if place else f"{path}"
    what = write_key(key)
    match detail["type"]:
        case "extra_forbidden":
            said = f"unknown key {what}"
        case "missing":
            said = f"{what} is missing"
        case "value_error":
            shown = write_value(detail["input"]["path"])
            said = (
                f"{what}.path = {shown}: {detail['msg'].removeprefix('Value error, ')}"
            )
        case _:
            said = f"{what} = {show(detail['input'])} is not what kgen writes"
            if detail["type"] == "enum":
                said += f"\n  allowed: {', '.join(Kind)}"
    return FileError(f"{where}: {said}\n{_repair(path)}")
