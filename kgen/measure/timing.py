"""Times of kernels: in turns with others, and as CUPTI tells them.

A GPU's clock and temperature drift, so that what is measured a minute later is measured
on another GPU. Candidates and peers therefore take turns, round by round.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kgen.errors import ExitCode, KgenError

WARM_UP_S = 0.1
"""An idle GPU runs at a fraction of its clock."""

ROUND_MS = 3.0
FEWEST_RUNS, MOST_RUNS = 2, 10

type Sets = Sequence[tuple[Any, ...]]
type Measure = Callable[[Any, Sets, int], list[float]]
"""Takes an executable, its operands and a number of runs; returns each run's us."""


class MeasuringError(KgenError):
    """The time of a kernel cannot be told here."""

    exit_code = ExitCode.USAGE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiled:
    """An executable that makes several calls, one for each set of operands.

    Attributes:
      run: Takes the sets; a `jax.stages.Compiled`, or what behaves as one.
      calls: How many calls it makes.
    """

    run: Callable[..., Any]
    calls: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples:
    """How long a call took, round by round.

    Attributes:
      us: Microseconds per call, one value for each round.
    """

    us: tuple[float, ...]

    @property
    def median(self) -> float:
        """Microseconds per call."""
        return statistics.median(self.us)

    @property
    def spread(self) -> float:
        """Half the interquartile range over the median; 0 if there is one round."""
        if len(self.us) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.us, n=4, method="inclusive")
        return (high - low) / 2 / self.median


def compile_each(function: Callable[..., Any], sets: Sets) -> Compiled:
    """Returns one executable that calls `function` on every set in turn.

    Every call has a result of its own, so that XLA drops none of them. Operands may be
    `jax.ShapeDtypeStruct`s: nothing runs.
    """
    import jax

    def each(sets: Sets) -> list[Any]:
        return [function(*operands) for operands in sets]

    return Compiled(run=jax.jit(each).lower(list(sets)).compile(), calls=len(sets))


def cupti(run: Callable[..., Any], sets: Sets, runs: int) -> list[float]:
    """Returns the kernel time of each of some runs, in microseconds.

    It is the sum over the kernels, without the gaps in between. One further run warms
    up.

    Raises:
      MeasuringError: this JAX or its machine has no such profiler.
    """
    try:
        times = _profiler()(run, iterations=runs)(list(sets))[1]
    except RuntimeError as error:
        if "CUPTI" not in str(error):
            raise
        raise MeasuringError(f"kernels cannot be timed: {error}") from error
    if times is None:
        raise MeasuringError("CUPTI saw no kernel run")
    each = times if isinstance(times, list) else [times]
    return [1e3 * milliseconds for milliseconds in each]


@functools.cache
def _profiler() -> Callable[..., Any]:
    import jax

    try:
        from jax.experimental.mosaic.gpu import profiler

        measure: Callable[..., Any] = profiler.measure
    except (ImportError, AttributeError):
        raise MeasuringError(
            f"kernels cannot be timed: jax {jax.__version__} has no"
            " jax.experimental.mosaic.gpu.profiler.measure\n"
            "  hint: jax 0.11.2 to 0.12 have it"
        ) from None
    return measure


def interleave(
    executables: Mapping[str, Compiled],
    sets: Sets,
    *,
    rounds: int,
    measure: Measure = cupti,
) -> dict[str, Samples]:
    """Times executables in turns.

    A round measures every executable once, each time beginning with another one: the
    median of some runs, over the calls that a run makes.

    Args:
      executables: What is timed, by name.
      sets: Operands, as `operands.draw` returns them.
      rounds: How many times; the more, the better the noise is known.
      measure: Tells the times of an executable's runs.

    Raises:
      MeasuringError: times cannot be told here.
    """
    if rounds < 1:
        raise ValueError(f"{rounds=} must be positive")
    names = list(executables)
    runs = {name: _warm_up(executables[name], sets) for name in names}
    us: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names) if names else 0
        for name in names[first:] + names[:first]:
            compiled = executables[name]
            times = measure(compiled.run, sets, runs[name])
            us[name].append(statistics.median(times) / compiled.calls)
    return {name: Samples(us=tuple(times)) for name, times in us.items()}


def _warm_up(compiled: Compiled, sets: Sets) -> int:
    """Runs an executable for a while; returns how many runs make a round."""
    import jax

    wait: Any = jax.block_until_ready
    start, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < WARM_UP_S or not count:
        wait(compiled.run(list(sets)))
        count += 1
    return max(FEWEST_RUNS, min(MOST_RUNS, round(ROUND_MS * count / (1e3 * passed))))
