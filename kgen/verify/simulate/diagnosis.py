"""Says what is wrong with a kernel that raced, hung or was refused.

install()                  # once per process, before a kernel is traced
begin()                    # before each run
describe_failure(module)
describe_found(module)
"""

from pathlib import Path

from kgen.verify.simulate import deadlocks, operations, records, tracing
from kgen.verify.simulate.phases import UNSEEN_LOAD
from kgen.verify.simulate.protocol import explain_refusal
from kgen.verify.simulate.races import describe_races
from kgen.verify.simulate.records import RECORDS


def install() -> None:
    """Has the imported JAX's interpreter watched; once per process.

    Raises:
      UnavailableError: a piece of JAX is not where it was in the versions kgen knows.
    """
    tracing.install()
    records.install()
    deadlocks.install()


def begin() -> None:
    """Forgets the kernel that ran before."""
    operations.forget()
    RECORDS.begin()
    deadlocks.begin()


def describe_found(module: Path) -> str | None:
    """Returns the data races of the kernel that ran; None if it had none."""
    return describe_races(RECORDS.races, module) if RECORDS.races else None


def describe_failure(module: Path) -> str | None:
    """Returns why the kernel that ran failed; None if it is not known here.

    A deadlock or a refusal, and the races that came before it.
    """
    failure = operations.first_failure()
    found = deadlocks.describe_deadlock(module)
    if found is None and failure is not None:
        position, error = failure
        if RECORDS.races and UNSEEN_LOAD in str(error):
            # Who reads SMEM without a wait for its load does both.
            return describe_found(module)
        found = explain_refusal(error, position, RECORDS, module)
    if found is None:
        return None
    if not RECORDS.races:
        return found
    return f"{found}\n{describe_races(RECORDS.races, module, most=1)}"


def failed_at(module: Path) -> str | None:
    """Returns the line whose operation failed, as `file.py:line: text`."""
    failure = operations.first_failure()
    if failure is None or failure[0].operation.place(module) is None:
        return None
    return failure[0].operation.describe(module)


def positions(module: Path) -> list[str]:
    """Returns where each thread of the kernel is, or was last."""
    return deadlocks.positions(module)
