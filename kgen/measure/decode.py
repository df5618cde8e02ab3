"""Frozen dataclasses from JSON, every type checked; an error names its place."""

import dataclasses
import sys
import types
import typing
from typing import Any


class DecodeError(ValueError):
    """A value is not what a field takes; the text begins with the field's place."""


def decode[T](cls: type[T], value: Any, place: str = "") -> T:
    """Returns an instance of a dataclass from a JSON object.

    Fields may be dataclasses, `tuple[X, ...]`, `X | None`, text, integers, floats and
    truth values. Whatever is missing and has no default, or is unknown, is an error.

    Raises:
      DecodeError: the value is not of that kind.
    """
    if not isinstance(value, dict):
        raise _wrong(place, "an object", value)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    for name in [*fields, *value]:
        if name not in fields:
            raise DecodeError(f"{_join(place, name)}: is not known")
        if name not in value and fields[name].default is dataclasses.MISSING:
            raise DecodeError(f"{_join(place, name)}: is missing")
    found = {
        name: _value(hints[name], value[name], _join(place, name)) for name in value
    }
    try:
        return cls(**found)
    except ValueError as error:
        raise DecodeError(f"{place or 'the document'}: {error}") from None


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises ValueError if a field holds none of what it may."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def _value(kind: Any, value: Any, place: str) -> Any:
    if isinstance(kind, types.UnionType):
        (inner,) = (each for each in kind.__args__ if each is not types.NoneType)
        return None if value is None else _value(inner, value, place)
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise _wrong(place, "a list", value)
        inner = kind.__args__[0]
        return tuple(_value(inner, v, f"{place}[{i}]") for i, v in enumerate(value))
    if dataclasses.is_dataclass(kind):
        return decode(typing.cast("type[Any]", kind), value, place)
    if kind is float:
        if type(value) not in (int, float) or not abs(value) < sys.float_info.max:
            raise _wrong(place, "a number", value)
        return float(value)
    if type(value) is not kind:
        names = {str: "text", int: "an integer", bool: "true or false"}
        raise _wrong(place, names[kind], value)
    return value


def _wrong(place: str, expected: str, value: Any) -> DecodeError:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    return DecodeError(f"{place or 'the document'}: expected {expected}, found {shown}")


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
