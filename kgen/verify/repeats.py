"""Runs a function again and again on one device, into memory that is NaN before.

What a kernel never wrote then shows as NaN, and a race as bits that change from run to
run. Everything but the first result stays on the device.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

A_RACE = (
    "memory is read before it is written, or written while it is still read"
    " (`kgen verify --level simulate` names the lines of most races)"
)

type Leaves = tuple[Any, ...]
"""The arrays that a function returned, in the order of its pytree."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """A run that gave other bits than the first.

    Attributes:
      run: Which, from 2.
      runs: How many there were.
      differing: How many of them differed.
      elements: Elements with other bits.
      size: Elements of the result.
      place: The first of those elements.
      before: Its value in the first run.
      after: Its value in this one.
    """

    run: int
    runs: int
    differing: int
    elements: int
    size: int
    place: tuple[int, ...]
    before: float
    after: float

    def __str__(self) -> str:
        place = ", ".join(map(str, self.place))
        return (
            f"not the same bits in every run: {self.differing} of {self.runs - 1} further"
            f" runs differ from the first; run {self.run} in {self.elements} of"
            f" {self.size} elements, the first at [{place}]: {self.before:g} before,"
            f" {self.after:g} now"
        )


class Poisoned:
    """A compiled function that gets memory for its results that holds NaN.

    The memory is handed over as a donated operand which nobody reads, and which XLA
    therefore takes for the results.

    Attributes:
      lowered: The function as JAX lowered it.
      results: Shapes and dtypes of what it returns, as a pytree.
    """

    def __init__(self, function: Callable[..., Any], operands: Sequence[Any]) -> None:
        """Compiles `function` for JAX's default device.

        Args:
          function: Takes arrays alone.
          operands: `jax.ShapeDtypeStruct`s of these.
        """
        import jax

        self.results = jax.eval_shape(function, *operands)
        structs = tuple(jax.tree.leaves(self.results))

        def into(_: Leaves, *arrays: Any) -> Any:
            return function(*arrays)

        jitted = jax.jit(into, donate_argnums=0, keep_unused=True)
        self.lowered = jitted.lower(structs, *operands)
        self._compiled = self.lowered.compile()
        self._poison = jax.jit(functools.partial(_poison, structs)).lower().compile()

    def __call__(self, *operands: Any) -> Leaves:
        """Runs the function once."""
        import jax

        return tuple(jax.tree.leaves(self._compiled(self._poison(), *operands)))

    def poison(self) -> Leaves:
        """Returns what the results are where nothing was written."""
        return tuple(self._poison())


def _poison(structs: Leaves) -> Leaves:
    """Makes arrays that no kernel is likely to return."""
    import jax.numpy as jnp

    return tuple(jnp.full(s.shape, _unlikely(s.dtype), s.dtype) for s in structs)


def _unlikely(dtype: Any) -> Any:
    import jax.numpy as jnp

    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if jnp.issubdtype(dtype, jnp.bool_):
        return True
    return np.iinfo(np.dtype(dtype)).min + 85


def reaches_results(unwritten: Callable[[], Any]) -> bool:
    """Whether what `unwritten` returns but never writes is poison.

    Args:
      unwritten: Returns arrays that are uninitialised, as a kernel without a body does.
    """
    kernel = Poisoned(unwritten, ())
    return all(
        int(_compare()(left, right)[0]) == 0
        for left, right in zip(kernel(), kernel.poison(), strict=True)
    )


def repeat(
    kernel: Poisoned, operands: Sequence[Any], runs: int
) -> tuple[Leaves, Difference | None]:
    """Runs `kernel` several times on the same operands.

    Returns:
      The results of the first run, on the device, and the first that differs from
      them in any bit.
    """
    import jax

    first = kernel(*operands)
    compare = _compare()
    # Nothing waits in this loop, so that the runs follow one another closely.
    compared = [
        [compare(before, after) for before, after in zip(first, again, strict=True)]
        for again in (kernel(*operands) for _ in range(runs - 1))
    ]
    found = jax.device_get(compared)
    different = [run for run, leaves in enumerate(found) if any(c for c, *_ in leaves)]
    if not different:
        return first, None
    run = different[0]
    leaf = next(i for i, (count, *_) in enumerate(found[run]) if count)
    count, place, before, after = found[run][leaf]
    shape = first[leaf].shape
    return first, Difference(
        run=run + 2,
        runs=runs,
        differing=len(different),
        elements=int(count),
        size=first[leaf].size,
        place=tuple(map(int, np.unravel_index(int(place), shape))),
        before=float(before),
        after=float(after),
    )


@functools.cache
def _compare() -> Callable[[Any, Any], tuple[Any, Any, Any, Any]]:
    """Returns what counts the elements whose bits differ, and tells the first."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def bits(array: Any) -> Any:
        if not jnp.issubdtype(array.dtype, jnp.floating):
            return array
        return lax.bitcast_convert_type(array, f"uint{8 * array.dtype.itemsize}")

    @jax.jit
    def compare(before: Any, after: Any) -> tuple[Any, Any, Any, Any]:
        different = (bits(before) != bits(after)).ravel()
        place = jnp.argmax(different)
        values = (before.ravel()[place], after.ravel()[place])
        return different.sum(dtype=jnp.int32), place, *values

    return compare
