"""Rendering of standalone tests alone, beside modules that stay as they are.

A test says what its module has passed, and is of use beside that module only. So it is
written where the module is there and is, byte for byte, what the spec yields: then
nothing has to be verified.
"""

import contextlib
import dataclasses
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from kgen import pipeline
from kgen.errors import FileError, KgenError
from kgen.workers import Track

if TYPE_CHECKING:
    from kgen.emit.write import Target
    from kgen.pipeline import Options, Outcome
    from kgen.plan.base import Plan


class ModuleDiffersError(FileError):
    """The module beside a test is not what its spec yields; the test was not written."""


def make_tests(
    plans: "Sequence[Plan]", options: "Options", track: Track
) -> Generator["Outcome"]:
    """Renders and writes the standalone test of every plan, and nothing else."""
    from kgen.emit.tree import remove_stale_temporaries

    remove_stale_temporaries(options.out / "tests")
    compared = pipeline.compare(plans, options, track, prove=True)
    with contextlib.closing(compared) as outcomes:
        for outcome in outcomes:
            yield _write(outcome, options)


def _write(outcome: "Outcome", options: "Options") -> "Outcome":
    from kgen.emit.write import write

    if outcome.error is not None:
        return outcome
    test, module = outcome.targets
    try:
        _check_module(module)
        targets = write([test.output], force=options.force)
    except KgenError as error:
        return dataclasses.replace(outcome, targets=(), error=error)
    return dataclasses.replace(outcome, targets=targets)


def _check_module(module: "Target") -> None:
    """Checks that a module is what its spec yields.

    Raises:
      ModuleDiffersError: it is not, or is not there.
    """
    from kgen.emit.write import State

    found = {
        State.MISSING: "is missing",
        State.DIFFERS: "is not what its spec yields",
        State.EDITED: "was edited since kgen wrote it",
        State.FOREIGN: "was not written by kgen",
    }
    if module.state is State.UNCHANGED:
        return
    why = f": {module.reason}" if module.reason else ""
    raise ModuleDiffersError(
        f"{module.path} {found[module.state]}{why}; its test was not written\n"
        "  hint: render both, without --tests-only"
    )
