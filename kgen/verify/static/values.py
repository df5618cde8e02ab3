"""What is known of an integer in a kernel before it runs.

A value is `constant + sum(factor * axis) + step * anything`: the axes are those of grid
and cluster, and `anything` is an integer that is not known. An index of the thread axis
is known for each thread, and so is what is computed from it alone.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

ANY = None
"""In place of a set of axes: the value may depend on anything."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Value:
    """An integer or a truth value.

    Attributes:
      constant: The part that is known.
      factors: What each axis is multiplied by.
      step: What the unknown part is a multiple of; 0 if there is none.
      by_thread: The value for each thread, if the thread alone decides it.
      depends: Axes that it may depend on; None for anything.
    """

    constant: int = 0
    factors: tuple[tuple[str, int], ...] = ()
    step: int = 0
    by_thread: tuple[int, ...] | None = None
    depends: frozenset[str] | None = frozenset()

    @property
    def known(self) -> int | None:
        """The value itself, if it is the same everywhere."""
        if self.factors or self.step or self.by_thread is not None:
            return None
        return self.constant


UNKNOWN = Value(step=1, depends=ANY)


def constant(value: int) -> Value:
    """Returns a value that is the same everywhere."""
    return Value(constant=value)


def axis(name: str) -> Value:
    """Returns the index along an axis of grid or cluster."""
    return Value(factors=((name, 1),), depends=frozenset({name}))


def thread_index(num_threads: int) -> Value:
    """Returns the index of the thread."""
    return _by_thread(tuple(range(num_threads)))


def unknown(*sources: Value) -> Value:
    """Returns a value that is computed from `sources` in some way."""
    return Value(step=1, depends=_depends(*sources))


def add(a: Value, b: Value) -> Value:
    """Returns a + b."""
    tables = _tables(a, b)
    if tables is not None:
        return _by_thread(tuple(map(sum, zip(*tables, strict=True))))
    factors = dict(a.factors)
    for name, factor in b.factors:
        factors[name] = factors.get(name, 0) + factor
    return Value(
        constant=a.constant + b.constant,
        factors=_sorted(factors),
        step=math.gcd(a.step, b.step),
        depends=_depends(a, b),
    )


def subtract(a: Value, b: Value) -> Value:
    """Returns a - b."""
    return add(a, _scaled(b, -1))


def multiply(a: Value, b: Value) -> Value:
    """Returns a * b."""
    for scale, other in ((a.known, b), (b.known, a)):
        if scale is not None:
            return _scaled(other, scale)
    tables = _tables(a, b)
    if tables is not None:
        return _by_thread(tuple(map(math.prod, zip(*tables, strict=True))))
    return unknown(a, b)


def fold(function: Callable[..., int], *operands: Value) -> Value:
    """Returns `function` of operands, known where all of them are."""
    known = [operand.known for operand in operands]
    if None not in known:
        return constant(int(function(*known)))
    tables = _tables(*operands)
    if tables is None:
        return unknown(*operands)
    return _by_thread(tuple(int(function(*c)) for c in zip(*tables, strict=True)))


def misaligned(
    value: Value,
    tile: int,
    sizes: Mapping[str, int],
    guards: frozenset[str] | None,
) -> bool:
    """Whether `value` is certainly no multiple of `tile` somewhere in the grid.

    Args:
      value: The value.
      tile: What it must be a multiple of.
      sizes: Number of indices along each axis.
      guards: Axes that decide whether the value is used at all; None for anything.
    """
    if value.by_thread is not None:
        return False  # Which threads come here is not asked.
    common = math.gcd(tile, value.step, *(factor for _, factor in value.factors))
    if value.constant % common:
        return True
    if value.step % tile or guards is ANY:
        return False
    # Every index of an axis occurs, 0 and 1 among them, unless the axis is a guard.
    free = [name not in guards and sizes.get(name, 1) > 1 for name, _ in value.factors]
    if not all(free):
        return False
    return any(part % tile for part in (value.constant, *dict(value.factors).values()))


def _scaled(a: Value, scale: int) -> Value:
    return Value(
        constant=a.constant * scale,
        factors=_sorted({name: factor * scale for name, factor in a.factors}),
        step=abs(a.step * scale),
        by_thread=a.by_thread and tuple(x * scale for x in a.by_thread),
        depends=a.depends,
    )


def _tables(*operands: Value) -> list[tuple[int, ...]] | None:
    """Returns the operands for each thread, if the thread alone decides them."""
    lengths = {len(o.by_thread) for o in operands if o.by_thread is not None}
    if len(lengths) != 1:
        return None
    (length,) = lengths
    tables = [
        o.by_thread if o.known is None else (o.constant,) * length for o in operands
    ]
    return None if None in tables else [table for table in tables if table is not None]


def _by_thread(table: tuple[int, ...]) -> Value:
    if len(set(table)) == 1:
        return constant(table[0])
    return Value(step=math.gcd(*table), by_thread=table)


def _sorted(factors: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((n, f) for n, f in factors.items() if f))


def _depends(*sources: Value) -> frozenset[str] | None:
    known = [source.depends for source in sources if source.depends is not None]
    return frozenset().union(*known) if len(known) == len(sources) else ANY
