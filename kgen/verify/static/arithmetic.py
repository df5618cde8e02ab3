"""Operations of a jaxpr on integers that are known in part."""

import operator
from collections.abc import Callable
from typing import Any

from kgen.verify.static import values
from kgen.verify.static.values import UNKNOWN, Value

_FOLDED: dict[str, Callable[..., Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.not_,
    "rem": lambda x, y: abs(x) % abs(y) * (1 if x >= 0 else -1) if y else 0,
    "div": lambda x, y: abs(x) // abs(y) * (1 if x * y >= 0 else -1) if y else 0,
    "select_n": lambda which, *cases: cases[which],
}
"""Operations on integers; signs as in XLA."""

_SAME = ("convert_element_type", "broadcast_in_dim", "squeeze", "reshape", "copy")
_AFFINE: dict[str, Callable[[Value, Value], Value]] = {
    "add": values.add,
    "mul": values.multiply,
    "sub": values.subtract,
}


def compute(name: str, inputs: list[Any]) -> Value:
    """Returns the result of the operation called `name`."""
    if not inputs or not all(isinstance(value, Value) for value in inputs):
        return UNKNOWN
    if name in _SAME:
        same: Value = inputs[0]
        return same
    if name in _AFFINE:
        return _AFFINE[name](*inputs)
    if name in _FOLDED:
        return values.fold(_FOLDED[name], *inputs)
    return values.unknown(*inputs)


def number(value: Any) -> Value:
    """Returns a constant of a jaxpr."""
    try:
        return values.constant(operator.index(value.item()))
    except (AttributeError, TypeError, ValueError):
        pass
    try:
        return values.constant(operator.index(value))
    except TypeError:
        return UNKNOWN
