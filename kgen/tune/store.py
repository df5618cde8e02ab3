"""The file of results: one record a line, only ever appended to.

A line is on the disk before the next candidate is measured. A run that was killed leaves
at most a torn last line, which the next run drops; so it resumes where that ended.
"""

import dataclasses
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kgen.emit.write import Output, file_error, write
from kgen.errors import FileError, UsageError
from kgen.tune.records import Key, Record

BEGINNING = b'{"format": '
"""How every line begins."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Read:
    """What a file holds.

    Attributes:
      records: Its records in written order.
      corrupt: `FILE:LINE: why`, of each line that is none.
      whole_bytes: Bytes up to the end of the last whole line.
      torn: Whether a part of a line follows.
    """

    records: tuple[Record, ...]
    corrupt: tuple[str, ...]
    whole_bytes: int
    torn: bool


OTHER_RESULTS = "name another one with --results"
LEFT_OUT = "leave it out of --merge"


def read(path: Path, instead: str = OTHER_RESULTS) -> Read:
    """Returns what a file of results holds; nothing if there is no file.

    Args:
      path: The file.
      instead: What to do if it is something else.

    Raises:
      FileError: it cannot be read, or is something else altogether.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise file_error("read", path, error) from error
    records: list[Record] = []
    corrupt: list[str] = []
    *lines, last = content.split(b"\n")
    torn = bool(last)
    for number, line in enumerate([*lines, last] if torn else lines, 1):
        try:
            records.append(Record.from_line(line.decode()))
        except ValueError as error:
            if number <= len(lines):
                corrupt.append(f"{path}:{number}: not a result: {error}")
        else:
            torn = torn and number <= len(lines)
    if torn and not records and not _begins_a_line(last):
        # Somebody's file without a last newline: it must not be cut off.
        corrupt.append(f"{path}:{len(lines) + 1}: not a result")
    if corrupt and not records:
        raise FileError(
            f"{corrupt[0]}\n  hint: {path} is no file of tuning results; {instead}"
        )
    whole = len(content) - (len(last) if torn else 0)
    return Read(
        records=tuple(records), corrupt=tuple(corrupt), whole_bytes=whole, torn=torn
    )


def _begins_a_line(part: bytes) -> bool:
    """Returns whether a run that was killed may have left this."""
    return part.startswith(BEGINNING) or BEGINNING.startswith(part)


class Store:
    """A file of results that this process alone appends to."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file and reads what it holds.

        Raises:
          FileError: it cannot be read or written, or is something else.
          UsageError: another process appends to it.
        """
        self.path = path
        self._is_new = not os.path.lexists(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise file_error("write", path, error) from error
        try:
            self._check_regular()
            self._lock()
            found = read(path)
            self.corrupt = found.corrupt
            self._records = {record.identity: record for record in found.records}
            self._drop_torn(found)
        except BaseException:
            os.close(self._file)
            raise

    def _check_regular(self) -> None:
        """Refuses pipes and devices: what is written there cannot be read again."""
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise FileError(f"{self.path} is no regular file\n  hint: {OTHER_RESULTS}")

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another kgen tune writes to {self.path}\n"
                "  hint: wait for it, or name another file with --results"
            ) from None
        except OSError:
            return  # The file system has no locks.

    def _drop_torn(self, found: Read) -> None:
        os.ftruncate(self._file, found.whole_bytes)
        os.lseek(self._file, 0, os.SEEK_END)
        if (
            found.whole_bytes
            and os.pread(self._file, 1, found.whole_bytes - 1) != b"\n"
        ):
            self._append(b"\n")

    def get(self, key: Key, digest: str, stage: str) -> Record | None:
        """Returns what is known of a candidate, if anything."""
        return self._records.get((key, digest, stage))

    def of(self, key: Key, stage: str) -> Iterator[Record]:
        """Yields every record of a key and a stage."""
        return (r for r in self._records.values() if (r.key, r.stage) == (key, stage))

    def add(self, record: Record) -> None:
        """Appends a record; when this returns, it is on the disk.

        Raises:
          FileError: it cannot be written.
        """
        self._append(record.to_line().encode() + b"\n")
        self._records[record.identity] = record

    def _append(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            raise file_error("write", self.path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        # A run that measured nothing leaves no file that was not there.
        if self._is_new and not os.fstat(self._file).st_size:
            self.path.unlink(missing_ok=True)
        os.close(self._file)


def merge(paths: Sequence[Path], out: Path) -> tuple[int, tuple[str, ...]]:
    """Writes the records of several files into one, which must not exist.

    Where two have measured the same, the later file counts, as the later line of a file
    does when it is read; the other record is left out.

    Returns:
      How many records were written, and what was left out.

    Raises:
      FileError: a file cannot be read or written; then there is no new one.
      UsageError: the result exists.
    """
    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        raise FileError(
            f"{missing}: no such file or directory\n"
            "  allowed: files of results that `kgen tune` wrote\n"
            f"  hint: {LEFT_OUT}, or check its name"
        )
    if os.path.lexists(out):
        raise UsageError(f"{out} exists already\n  hint: name a new file with -o")
    found = [read(path, LEFT_OUT) for path in paths]
    every = [record for each in found for record in each.records]
    records = {record.identity: record for record in every}
    text = "".join(f"{record.to_line()}\n" for record in records.values())
    write([Output(path=out, text=text)])
    told = [line for each in found for line in each.corrupt]
    told += [
        f"{path}: its last line is torn"
        for path, each in zip(paths, found, strict=True)
        if each.torn
    ]
    different = len(dict.fromkeys(every)) - len(records)
    if different:
        told.append(f"{different} measured again by a later line or file")
    return len(records), tuple(told)
