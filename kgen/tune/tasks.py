"""What workers are told, and what becomes of it."""

import dataclasses
from typing import Any

from kgen.errors import ExitCode, KgenError


class PoolError(KgenError):
    """Nothing can be measured on this machine; the text says why."""

    exit_code = ExitCode.USAGE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds that a worker may take.

    Attributes:
      start: Until it is ready; others that start at the same time wait for the device.
      prepare: To compile a candidate.
      measure: To check and time it.
    """

    start: float = 300.0
    prepare: float = 60.0
    measure: float = 20.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """What every worker is told.

    Attributes:
      meter: What measures: `module:class`.
      request: What is asked of the kernels, with one case, as JSON. Its source is a
        module whose `reference` is that of all of them, or empty if none is needed.
    """

    meter: str
    request: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """One candidate to be measured.

    Attributes:
      tag: Whatever the caller knows it by.
      source: Text of its module.
      rounds: Rounds of measurements.
    """

    tag: Any
    source: str
    rounds: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a task.

    Attributes:
      task: The task.
      outcome: One of `kgen.tune.records.OUTCOMES`.
      us: Microseconds of a call, one for each round.
      peer_us: The same of the peer.
      detail: Why it was not measured.
      seconds: Wall time.
    """

    task: Task
    outcome: str
    us: tuple[float, ...] = ()
    peer_us: tuple[float, ...] = ()
    detail: str = ""
    seconds: float = 0.0
