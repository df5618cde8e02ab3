"""Files of results: written whole or not at all, and read with suspicion."""

import json
import os
import statistics
from pathlib import Path
from typing import Any

from kgen.emit.replace import check_own
from kgen.errors import ExitCode, KgenError
from kgen.measure.decode import DecodeError, decode
from kgen.measure.results import FORMAT, KIND, Document, Record
from kgen.measure.timing import Samples


class ResultFileError(KgenError):
    """A file of results cannot be read, or is none."""

    exit_code = ExitCode.IO


def check_place(path: Path) -> None:
    """Refuses a place for results where a file lies that holds none.

    Raises:
      FileError: there is such a file, or it cannot be read.
    """
    check_own(path, _is_own, f"{KIND} --json")


def save(document: Document, path: Path) -> None:
    """Writes a document over an older one alone, which is whole until the new one is.

    Raises:
      FileError: another file is in the way.
      ResultFileError: it cannot be written.
    """
    check_place(path)
    place = path.resolve()  # Through symbolic links, to the file itself.
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        beside.write_text(document.to_json(), encoding="utf-8")
        beside.replace(place)
    except OSError as error:
        raise ResultFileError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)


def _is_own(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("kind") == KIND


def load(path: Path) -> Document:
    """Reads a file that `kgen bench --json` wrote.

    Raises:
      ResultFileError: it cannot be read, is none, is corrupt or of a newer kgen.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ResultFileError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _no_results(path, "it is not UTF-8 text") from None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _no_results(path, f"it is not JSON: {error}") from None
    return parse(value, str(path))


def parse(value: Any, path: str) -> Document:
    """Returns a document of what JSON has.

    Raises:
      ResultFileError: it is none; the text names the place.
    """
    if not isinstance(value, dict) or value.get("kind") != KIND:
        found = value.get("kind") if isinstance(value, dict) else type(value).__name__
        raise _no_results(path, f'its "kind" is not {KIND!r}, found {found!r}')
    found = value.get("format")
    if type(found) is int and found < 1:
        raise _no_results(path, f"there is no format {found}")
    if type(found) is int and found > FORMAT:
        raise ResultFileError(
            f"{path}: format {found} is of a newer kgen"
            f" (kgen {value.get('kgen')!s})\n"
            f"  allowed: format {FORMAT}\n"
            "  hint: update kgen, or measure again"
        )
    try:
        document = decode(Document, value)
        for index, record in enumerate(document.results):
            _check_figures(record, f"results[{index}]")
    except DecodeError as error:
        raise ResultFileError(
            f"{path}: {error}\n"
            "  hint: the file is corrupt or was edited; measure again"
        ) from None
    return document


def _check_figures(record: Record, place: str) -> None:
    timings = [("timing", record.timing)]
    timings += [(f"peers[{i}].timing", p.timing) for i, p in enumerate(record.peers)]
    for name, timing in timings:
        if timing is None:
            continue
        if not timing.us or min(timing.us) <= 0:
            raise DecodeError(f"{place}.{name}.us: expected positive times")
        median = statistics.median(timing.us)
        if abs(timing.median_us - median) > 1e-3 * median:
            raise DecodeError(
                f"{place}.{name}.median_us: {timing.median_us} is not the median of the"
                f" rounds, which is {median:.4f}"
            )
        spread = Samples(us=timing.us).spread
        # Times are rounded to 0.0001 us.
        if abs(timing.spread - spread) > 1e-5 + 1e-3 / median:
            raise DecodeError(
                f"{place}.{name}.spread: {timing.spread} is not that of the rounds,"
                f" which is {spread:.6f}"
            )


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _no_results(path: Path | str, why: str) -> ResultFileError:
    return ResultFileError(
        f"{path} holds no results of kgen bench: {why}\n"
        "  allowed: a file that `kgen bench --json FILE` wrote"
    )
