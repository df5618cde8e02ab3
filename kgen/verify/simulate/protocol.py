"""Explains the errors by which JAX's interpreter refuses a use of barriers or copies.

They name barriers by their addresses and threads by their numbers. Here each becomes a
sentence with the line of the operation and what to change.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any

from kgen.verify.simulate.operations import Position
from kgen.verify.simulate.phases import UNORDERED, UNSEEN_LOAD
from kgen.verify.simulate.races import describe_buffer
from kgen.verify.simulate.records import Records
from kgen.verify.simulate.waits import describe_barrier

EVERY_PHASE = (
    "a barrier remembers one completion: a warpgroup must wait (plgpu.barrier_wait) for"
    " each before the next one comes; and num_arrivals ({needed}) must be the number of"
    " arrivals of one round, copies and plgpu.barrier_arrive"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rule:
    """What an error means.

    Attributes:
      pattern: Matches JAX's message.
      problem: Says what is wrong with `{barrier}`, from the pattern's groups.
      hint: What to change.
    """

    pattern: str
    problem: str
    hint: str


_RULES = (
    _Rule(
        pattern=r"Barrier deallocated with (?P<count>\d+) arrivals pending",
        problem="the kernel ends with {count} of {needed} arrivals at {barrier}",
        hint="an arrival is missing or one too many: count one for each"
        " copy_gmem_to_smem with the barrier and one for each barrier_arrive of a"
        " warpgroup, and make num_arrivals that number",
    ),
    _Rule(
        pattern=UNSEEN_LOAD,
        problem="a load into SMEM is in flight when the kernel ends: nobody has waited"
        " for it at {barrier}",
        hint="wait (plgpu.barrier_wait) for every copy_gmem_to_smem before its SMEM goes"
        " out of scope: TMA would write into what belongs to the next CTA by then",
    ),
    _Rule(
        pattern=UNORDERED,
        problem="{barrier} may complete again before a warpgroup has waited for the last"
        " time: nothing orders the two",
        hint=EVERY_PHASE,
    ),
    _Rule(
        pattern=r"missed observing phase (?P<phase>\d+)",
        problem="{barrier} completed twice before a warpgroup waited for it: completion"
        " {phase} was missed",
        hint=EVERY_PHASE,
    ),
    _Rule(
        pattern=r"for the first time, but barrier is already at phase (?P<phase>\d+)",
        problem="{barrier} has completed {phase} times when a warpgroup waits for it"
        " for the first time",
        hint=EVERY_PHASE,
    ),
    _Rule(
        pattern=r"completed phase 1, but no threads observed phase 0",
        problem="{barrier} completes a second time and nobody has waited for the first",
        hint=EVERY_PHASE,
    ),
    _Rule(
        pattern=r"is awaiting phase \d+, but barrier is already at phase (?P<phase>\d+)",
        problem="{barrier} has completed {phase} times, and a warpgroup that waits for"
        " it has missed one",
        hint=EVERY_PHASE,
    ),
    _Rule(
        pattern=r"had only observed that barrier up to|had only observed barrier up to",
        problem="{barrier} has completed once more than a warpgroup waited for it",
        hint=EVERY_PHASE,
    ),
)
_STORES = "Not all copy_smem_to_gmem read-side operations completed"


def explain_refusal(
    error: BaseException, position: Position, records: Records, module: Path
) -> str | None:
    """Returns what an error of the interpreter means; None if that is not known.

    Args:
      error: What JAX raised, with its traceback.
      position: The operation that raised it.
      records: What is known of the kernel.
      module: The module's file.
    """
    text = str(error)
    if _STORES in text:
        return _stores_in_flight(position, records, module)
    for rule in _RULES:
        if match := re.search(rule.pattern, text):
            barrier = _barrier(error)
            named = barrier and describe_barrier(barrier, records, module)
            values = match.groupdict()
            values["barrier"] = named or "a barrier"
            values["needed"] = getattr(barrier, "num_arrivals", "its value")
            return _told(
                rule.problem.format(**values),
                position,
                module,
                rule.hint.format(**values),
            )
    return None


def _stores_in_flight(position: Position, records: Records, module: Path) -> str:
    problem = f"{position.who()} ends while a store is in flight"
    hint = "SMEM must outlive the store: end the kernel with plgpu.wait_smem_to_gmem(0)"
    store = records.last_store(position.thread)
    if store is None:
        return f"{problem}\nhint: {hint}"
    buffer, access = store
    return _told(
        f"{problem} that still reads {describe_buffer(buffer)}",
        access.position,
        module,
        hint,
    )


def _told(problem: str, position: Position, module: Path, hint: str) -> str:
    operation = position.operation
    if operation.place(module) is None:
        return f"{problem}\nhint: {hint}"
    place = operation.describe(module)
    if operation.in_pipeline:
        place = f"in the pipeline of {place}"
    return f"{problem}:\n  {place}\nhint: {hint}"


def _barrier(error: BaseException) -> Any:
    """Returns the barrier that raised an error, or that was about to be let go."""
    trace, found = error.__traceback__, None
    while trace is not None:
        names = trace.tb_frame.f_locals
        for name in ("self", "barrier"):
            if hasattr(names.get(name), "num_arrivals"):
                found = names[name]
        trace = trace.tb_next
    return found
