"""Hints at other tiles: none is named that breaks a rule instead."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.registers import WARPGROUP_THREADS

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

# The next sizes are so small that the kernel would be slow.
MOST_TRIED = 8
WGMMA_M, WGMMA_N_STEP = 64, 8


def smaller_tile(candidate: "Candidate") -> str:
    """Returns what would make the accumulator of a candidate fit."""
    sizes = ((axis, size) for axis in "nm" for size in _fitting(candidate, axis))
    named = (
        f"tile.{axis} = {size} fits"
        for axis, size in sizes
        if _is_legal(candidate, "tile", axis, size)
    )
    hints = [next(named, "make the tile smaller")]
    if candidate.schedule == "pipelined" and _is_legal(
        candidate, "schedule", "warp_specialized", True
    ):
        hints.append("schedule.warp_specialized = true splits the tile")
    return "; or ".join(hints)


def _fitting(candidate: "Candidate", axis: str) -> Iterator[int]:
    """Yields sizes of the tile with which the accumulator fits, the largest first."""
    registers, sums = candidate.registers, candidate.weights + candidate.promote
    room = (registers.compute_limit - registers.other) * WARPGROUP_THREADS // sums
    across = candidate.wg_m if axis == "n" else candidate.wg_n
    step = WGMMA_M if (axis == "m") != candidate.swap_operands else _step(candidate)
    parts = candidate.num_compute_wgs if candidate.split == axis else 1
    sizes = range(room // across // step * step, 0, -step)
    return (parts * size for size in itertools.islice(sizes, MOST_TRIED))


def _step(candidate: "Candidate") -> int:
    """Returns what a warpgroup's columns are a multiple of, with the swizzle it has."""
    swizzle = candidate.b_layout.swizzle
    if candidate.columns_are_k_major or swizzle is None:
        return WGMMA_N_STEP
    return swizzle // candidate.itemsize


def _is_legal(candidate: "Candidate", table: str, key: str, value: object) -> bool:
    """Whether a candidate is legal with another value of a key of its spec."""
    from kgen.plan import legality, matmul

    spec = candidate.spec
    changed = getattr(spec, table).model_copy(update={key: value})
    source = dataclasses.replace(
        candidate.source, spec=spec.model_copy(update={table: changed})
    )
    resolved = matmul.resolve(source)
    fits = resolved.registers.estimate <= resolved.registers.compute_limit
    return fits and not legality.check(resolved)
