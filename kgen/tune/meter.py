"""Measures candidates on a GPU; the only part of the tuner that uses one.

A worker process makes one meter. Whatever has its methods may take its place.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kgen.measure import machine, timing
from kgen.measure.computed import Computed
from kgen.measure.correct import Check
from kgen.measure.timing import Compiled, Sets
from kgen.verify import repeats
from kgen.verify.explain import LevelError
from kgen.verify.request import Request

GPU_METER = "kgen.tune.meter:GpuMeter"
"""The meter that is used, as a worker imports it."""

OURS, XLA = "ours", "xla"
ROUNDS_OF_FORMS = 5
"""Rounds in which the fastest of XLA's forms is found."""


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

    def __init__(self, request: Request) -> None: ...

    def connect(self) -> dict[str, str]:
        """Finds the device, while others may be measured; describes the machine.

        Raises:
          KgenError: there is none.
        """

    def setup(self, reference: Callable[..., Any] | None) -> None:
        """Makes operands and peers, with the device for itself.

        Args:
          reference: What candidates compute, in plain JAX; None for plain products.

        Raises:
          KgenError: nothing can be measured here.
        """

    def compute(self) -> None:
        """Computes on the host what must be returned; others may be measured meanwhile."""

    def prepare(self, function: Callable[..., Any]) -> Any:
        """Compiles a candidate; others may be measured meanwhile."""

    def measure(self, prepared: Any, rounds: int) -> Times:
        """Checks and times what `prepare` returned, with the device for itself.

        Raises:
          WrongResultError: the result is wrong.
          KgenError: nothing can be measured here.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """A candidate that is compiled.

    Attributes:
      kernel: To be checked.
      compiled: To be timed.
    """

    kernel: repeats.Poisoned
    compiled: Compiled


class GpuMeter:
    """Measures on a GPU, with what `kgen bench` checks and compares with."""

    def __init__(self, request: Request) -> None:
        self._computed = Computed.of(request)
        self._sets: Sets = []
        self._peer: Compiled
        self._check: Check

    def connect(self) -> dict[str, str]:
        """Finds a GPU of the architecture."""
        import jax

        device = machine.find_gpu(self._computed.request.arch)
        config: Any = jax.config
        config.update("jax_default_device", device)
        return machine.describe(device)

    def setup(self, reference: Callable[..., Any] | None) -> None:
        """Draws operands beyond L2, and compiles the fastest that XLA has for them."""
        computed = self._computed
        self._sets = computed.draw(machine.l2_bytes(computed.request.arch))
        self._peer = self._fastest(computed.xla(self._sets, reference))
        self._check = computed.check(reference)

    def _fastest(self, forms: Mapping[str, Compiled]) -> Compiled:
        if len(forms) == 1:
            return next(iter(forms.values()))
        found = timing.interleave(forms, self._sets, rounds=ROUNDS_OF_FORMS)
        return forms[min(found, key=lambda form: found[form].median)]

    def compute(self) -> None:
        """Computes some rows in float64."""
        self._check.compute()

    def prepare(self, function: Callable[..., Any]) -> Prepared:
        """Compiles a candidate for every set of operands."""
        return Prepared(
            kernel=repeats.Poisoned(function, self._computed.structs()),
            compiled=timing.compile_each(function, self._sets),
        )

    def measure(self, prepared: Prepared, rounds: int) -> Times:
        """Checks a candidate and times it in turns with XLA."""
        try:
            self._check(prepared.kernel)
        except LevelError as error:
            raise WrongResultError(str(error)) from error
        both = {OURS: prepared.compiled, XLA: self._peer}
        samples = timing.interleave(both, self._sets, rounds=rounds)
        return Times(us=samples[OURS].us, peer_us=samples[XLA].us)
