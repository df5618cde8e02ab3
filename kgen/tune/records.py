"""What became of a candidate, and its form as a line of JSON."""

import dataclasses
import json
import reprlib
import sys
from collections.abc import Iterable, Set
from typing import Any, Self

from kgen.plan.model import EXACT

FORMAT = 1
MEASURED, WRONG, RAISE, HANG, ABORT = "measured", "wrong", "raise", "hang", "abort"
OUTCOMES = (MEASURED, WRONG, RAISE, HANG, ABORT)
SEARCH, FINAL = "search", "final"
STAGES = (SEARCH, FINAL)
LARGEST_SIZE = 10**12
"""Of m, n and k: far beyond any memory."""
NO_STRINGS = ("dtypes", "shape", "batch", "scale_block")
"""Parts of a key that are something else."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Key:
    """What a result holds for, beside the candidate.

    Attributes:
      op: The operation.
      dtypes: Its dtypes, by operand.
      layout: How the operands lie in memory.
      shape: (m, n, k).
      arch: Architecture that the kernel is made for.
      device: The GPU, as JAX names it.
      jax: Version of JAX.
      template: Digest of the templates.
      epilogue: Steps between the product and the result, as a module lists them.
      activation: That of a gated linear unit; else empty.
      scale_block: Elements of k that share a scale; 0 without scales.
      edge: `exact`, or `any` if sizes need not be multiples of the tile.
      batch: Leading dimensions of operands and result.

    A line of a file has none of the last ones that are as by default: they are newer.
    """

    op: str
    dtypes: tuple[tuple[str, str], ...]
    layout: str
    shape: tuple[int, int, int]
    arch: str
    device: str
    jax: str
    template: str
    epilogue: str = ""
    activation: str = ""
    scale_block: int = 0
    edge: str = EXACT
    batch: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What became of one candidate.

    Attributes:
      key: What it holds for.
      digest: Digest of the candidate's spec, without its name and its tests.
      values: Values of the candidate by dotted name, for people.
      stage: `search`, or `final` for one that was measured again.
      outcome: One of `OUTCOMES`.
      us: Microseconds of a call, one for each round.
      peer_us: The same of XLA, measured in turns with it.
      detail: Why it was not measured.
      seconds: Wall time of it all.
    """

    key: Key
    digest: str
    values: tuple[tuple[str, Any], ...]
    stage: str
    outcome: str
    us: tuple[float, ...] = ()
    peer_us: tuple[float, ...] = ()
    detail: str = ""
    seconds: float = 0.0

    @property
    def identity(self) -> tuple[Key, str, str]:
        """What is measured once."""
        return self.key, self.digest, self.stage

    def to_line(self) -> str:
        """Returns the record as a line of the file, without its end."""
        fields = {
            "format": FORMAT,
            **dataclasses.asdict(self),
            "values": dict(self.values),
        }
        key = {**fields["key"], "dtypes": dict(self.key.dtypes)}
        fields["key"] = {
            name: value
            for name, value in key.items()
            if name not in DEFAULTS or value != DEFAULTS[name]
        }
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Returns the record of a line.

        Raises:
          ValueError: it is none.
        """
        try:
            fields = json.loads(line, parse_constant=_refuse_constant)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not isinstance(fields, dict):
            raise ValueError("it is no object")
        found = fields.pop("format", None)
        if found != FORMAT:
            raise ValueError(f"its format is {found!r}, not {FORMAT}")
        _expect(fields, cls)
        key = fields["key"]
        _expect(key, Key, optional=DEFAULTS.keys())
        key = {**DEFAULTS, **key}
        _check_key(key)
        _check_values(fields)
        key = {
            **key,
            "dtypes": tuple(key["dtypes"].items()),
            "shape": tuple(key["shape"]),
            "batch": tuple(key["batch"]),
        }
        values = tuple((name, _frozen(v)) for name, v in fields["values"].items())
        times = {name: tuple(map(float, fields[name])) for name in ("us", "peer_us")}
        return cls(**{**fields, **times, "key": Key(**key), "values": values})


DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(Key)
    if field.default is not dataclasses.MISSING
}


def _expect(fields: Any, cls: type[Any], optional: Set[str] = frozenset()) -> None:
    names = {field.name for field in dataclasses.fields(cls)}
    if not isinstance(fields, dict) or fields.keys() | optional != names:
        found = sorted(fields) if isinstance(fields, dict) else fields
        shown = reprlib.repr(found)
        raise ValueError(f"{cls.__name__.lower()} has {shown}, not {sorted(names)}")


def _check_key(key: dict[str, Any]) -> None:
    shape, dtypes = key["shape"], key["dtypes"]
    is_shape = isinstance(shape, list) and len(shape) == 3
    if not (is_shape and all(map(_is_size, shape))):
        raise ValueError(f"shape is {reprlib.repr(shape)}, not three positive integers")
    if not (isinstance(dtypes, dict) and _are_strings(dtypes.values())):
        raise ValueError(f"dtypes is {reprlib.repr(dtypes)}, not names by operand")
    batch, block = key["batch"], key["scale_block"]
    if not (isinstance(batch, list | tuple) and all(map(_is_size, batch))):
        raise ValueError(f"batch is {reprlib.repr(batch)}, not positive integers")
    if not (type(block) is int and 0 <= block <= LARGEST_SIZE):
        raise ValueError(f"scale_block is {reprlib.repr(block)}, not a size")
    if not _are_strings(v for k, v in key.items() if k not in NO_STRINGS):
        raise ValueError("the key has a part that is no text")


def _is_size(value: object) -> bool:
    return type(value) is int and 0 < value <= LARGEST_SIZE


def _check_values(fields: dict[str, Any]) -> None:
    if not _are_strings(fields[name] for name in ("digest", "stage", "detail")):
        raise ValueError("digest, stage or detail is no text")
    for name, allowed in (("stage", STAGES), ("outcome", OUTCOMES)):
        if fields[name] not in allowed:
            raise ValueError(
                f"{name} is {reprlib.repr(fields[name])}, not one of"
                f" {', '.join(allowed)}"
            )
    if not isinstance(fields["values"], dict):
        raise ValueError("values is no object")
    for name, value in fields["values"].items():
        if not _is_value(value):
            raise ValueError(
                f"values has {name!r} as {reprlib.repr(value)}, which no key of a spec"
                " takes"
            )
    for name in ("us", "peer_us"):
        times = fields[name]
        if not (isinstance(times, list) and all(map(_is_time, times))):
            raise ValueError(f"{name} is {reprlib.repr(times)}, not positive numbers")
    if fields["outcome"] == MEASURED and not fields["us"]:
        raise ValueError("it was measured, but has no times")
    seconds = fields["seconds"]
    if not _is_time(seconds) and (type(seconds) is bool or seconds != 0):
        raise ValueError(f"seconds is {reprlib.repr(seconds)}, not a time")


def _is_time(value: object) -> bool:
    """Whether a value is a positive number that a float can hold."""
    return type(value) in (int, float) and 0 < value <= sys.float_info.max  # type: ignore[operator]


def _is_value(value: object) -> bool:
    """Whether a value is what a key of a spec takes: a scalar, or a list of such."""
    if isinstance(value, list):
        return all(map(_is_value, value))
    is_number = type(value) in (int, float)
    return (
        value is None
        or isinstance(value, str | bool)
        or (is_number and abs(value) <= sys.float_info.max)  # type: ignore[arg-type]
    )


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _are_strings(values: Iterable[object]) -> bool:
    return all(type(value) is str for value in values)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
