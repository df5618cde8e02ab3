"""Measures candidates on a GPU; the only part of the tuner that uses one.

A worker process makes one meter. Whatever has its methods may take its place.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from kgen.float8 import FLOAT8, largest_partial_sum, sum_error
from kgen.measure.problem import Problem

GPU_METER = "kgen.tune.meter:GpuMeter"
"""The meter that is used, as a worker imports it."""

OURS, XLA = "ours", "xla"


class WrongResultError(Exception):
    """A candidate computes something else."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Times:
    """How long a call took, in microseconds, round by round.

    Attributes:
      us: The candidate.
      peer_us: XLA, in turns with it.
    """

    us: tuple[float, ...]
    peer_us: tuple[float, ...]


class Meter(Protocol):
    """Prepares candidates while others are measured, and measures one at a time."""

    def __init__(self, problem: Problem, arch: str) -> None: ...

    def connect(self) -> dict[str, str]:
        """Finds the device, while others may be measured; describes the machine.

        Raises:
          KgenError: there is none.
        """

    def setup(self) -> None:
        """Makes operands and peers, with the device for itself.

        Raises:
          KgenError: nothing can be measured here.
        """

    def prepare(self, function: Callable[..., Any]) -> Any:
        """Compiles a candidate; others may be measured meanwhile."""

    def measure(self, prepared: Any, rounds: int) -> Times:
        """Checks and times what `prepare` returned, with the device for itself.

        Raises:
          WrongResultError: the result is wrong.
          KgenError: nothing can be measured here.
        """


class GpuMeter:
    """Measures matrix products on a GPU."""

    def __init__(self, problem: Problem, arch: str) -> None:
        self._problem = problem
        self._arch = arch
        self._sets: list[tuple[Any, Any]] = []
        self._peer: Any = None
        self._expected: Any = None

    def connect(self) -> dict[str, str]:
        """Finds a GPU of the architecture."""
        import jax

        from kgen.measure import machine

        device = machine.find_gpu(self._arch)
        config: Any = jax.config
        config.update("jax_default_device", device)
        return machine.describe(device)

    def setup(self) -> None:
        """Draws operands beyond L2, and compiles XLA's product of them."""
        import jax

        from kgen.measure import machine, operands, peers

        problem = self._problem
        self._sets = operands.draw(problem, l2_bytes=machine.l2_bytes(self._arch))
        self._peer = peers.compile_xla(problem, self._sets)
        wide = dataclasses.replace(problem, out_dtype="float32")
        self._expected = jax.jit(peers.xla(wide))(*self._sets[0])

    def prepare(self, function: Callable[..., Any]) -> Any:
        """Compiles a candidate for every set of operands."""
        from kgen.measure import timing

        return timing.compile_each(function, self._sets)

    def measure(self, prepared: Any, rounds: int) -> Times:
        """Checks a candidate and times it in turns with XLA."""
        from kgen.measure import timing

        error = worst_error(prepared.run(self._sets)[0], self._expected, self._problem)
        if error > 1:
            raise WrongResultError(
                f"the largest error is {error:.3g} times what rounding explains"
            )
        both = {OURS: prepared, XLA: self._peer}
        samples = timing.interleave(both, self._sets, rounds=rounds)
        return Times(us=samples[OURS].us, peer_us=samples[XLA].us)


def worst_error(result: Any, expected: Any, problem: Problem) -> float:
    """Returns the largest error of a product of normal values over what is allowed.

    It is infinite if there is a NaN.

    Rounding to the result's dtype is allowed, and an error of the sums as float32
    accumulators have it in any order. Operands in float32 are multiplied as tf32, and
    products of 8-bit floats are added with few bits, by XLA too.

    Args:
      result: The product.
      expected: The same in float32.
      problem: Dtypes and shape.
    """
    import jax
    import jax.numpy as jnp

    finfo: Any = jnp.finfo
    tf32 = problem.operand_dtype == "float32"
    k, relative = problem.shape[2], 0.0
    of_sums, rest = (8e-3 if tf32 else 1e-3) * k**0.5, k * largest_partial_sum(k)
    if problem.operand_dtype in FLOAT8:
        relative = 2 * sum_error(k)

    @jax.jit
    def worst(result: Any, expected: Any) -> Any:
        size = jnp.abs(expected)
        allowed = finfo(result.dtype).eps * size + of_sums + relative * (size + rest)
        error = jnp.abs(result.astype(jnp.float32) - expected) / allowed
        # XLA's maximum may lose a NaN, on a CPU for one.
        return jnp.max(jnp.where(jnp.isnan(error), jnp.inf, error))

    if result.shape != expected.shape:
        raise WrongResultError(f"the result is {result.shape}, not {expected.shape}")
    return float(worst(result, expected))
