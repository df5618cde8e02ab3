"""All planted faults."""

import functools
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
from .bases import NAMES, base
from .model import Base, Fault, Kind, Mutant, name_of, planted

__all__ = [
    "GROUPS",
    "NAMES",
    "Base",
    "Kind",
    "Mutant",
    "base",
    "faults",
    "kinds",
    "mutant",
    "mutants",
    "originals",
]

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


@functools.cache
def faults() -> dict[str, tuple[Fault, str]]:
    """Returns the faults and the names of their kernels by the mutants' names.

    In their order, group by group; nothing is rendered for it.
    """
    every = itertools.chain(*(module.FAULTS for module in MODULES))
    return {name_of(each, name): (each, name) for each in every for name in each.bases}


def mutant(name: str) -> Mutant:
    """Returns a mutant."""
    fault, original = faults()[name]
    return planted(fault, base(original))


def mutants() -> Iterator[Mutant]:
    """Yields every mutant, group by group."""
    yield from map(mutant, faults())


def kinds() -> tuple[Kind, ...]:
    """Returns the kinds of fault, each once, in their order."""
    return tuple(dict.fromkeys(fault.kind for fault, _ in faults().values()))


def originals() -> Iterator[Base]:
    """Yields the kernels without a fault."""
    yield from map(base, NAMES)
