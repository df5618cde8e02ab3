"""All planted faults."""

import itertools
from collections.abc import Iterator

from . import (
    barriers,
    batches,
    chains,
    edges,
    epilogue,
    gates,
    gradients,
    indices,
    legality,
    numerics,
    pipeline,
    promotion,
    schedules,
)
from .bases import bases
from .model import Base, Kind, Mutant, plant

__all__ = ["GROUPS", "Base", "Kind", "Mutant", "kinds", "mutants", "originals"]

MODULES = (
    pipeline,
    barriers,
    epilogue,
    chains,
    indices,
    edges,
    batches,
    gradients,
    numerics,
    promotion,
    gates,
    schedules,
    legality,
)
GROUPS = tuple(module.GROUP for module in MODULES)


def mutants() -> Iterator[Mutant]:
    """Yields every mutant, group by group."""
    for module in MODULES:
        yield from plant(module.FAULTS, bases())


def kinds() -> tuple[Kind, ...]:
    """Returns the kinds of fault, each once, in their order."""
    faults = itertools.chain(*(module.FAULTS for module in MODULES))
    return tuple(dict.fromkeys(fault.kind for fault in faults))


def originals() -> Iterator[Base]:
    """Yields the kernels without a fault."""
    yield from bases().values()
