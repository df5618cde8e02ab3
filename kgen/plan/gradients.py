"""The products of a matmul's gradients: its own kernel, with operands in other layouts."""

import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen import cases as sizes
from kgen.gradients import Gradient, gradients
from kgen.plan.model import Case

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

# Units along m, n and k: no two alike.
COUNTS = (1, 2, 3)


def candidates(candidate: "Candidate") -> Iterator[tuple[Gradient, "Candidate"]]:
    """Yields the gradients of A and of B with a candidate of each."""
    for gradient in gradients(candidate.layout):
        yield (
            gradient,
            dataclasses.replace(candidate, layout=gradient.layout, epilogue=()),
        )


def cases(candidate: "Candidate") -> tuple[Case, ...]:
    """Returns the sizes at which the gradients are verified, beside the product.

    One with few tiles, and one in which every ring goes around: n and m are the depths
    of the gradients.
    """
    if not candidate.autodiff:
        return ()
    depth = (candidate.max_concurrent_steps + 1) * candidate.blocks[2]
    unit_m, unit_n, unit_k = candidate.units_to_differentiate
    few = (COUNTS[0] * unit_m, COUNTS[1] * unit_n, COUNTS[2] * unit_k)
    around = (
        math.ceil(depth / unit_m) * unit_m,
        math.ceil(depth / unit_n) * unit_n,
        unit_k,
    )
    if candidate.any_edge:
        _, (few, _), *_ = sizes.edges(
            candidate.blocks, candidate.max_concurrent_steps
        )
        around = (
            sizes.prime_from(depth + 1),
            sizes.prime_from(depth + 9),
            sizes.prime_from(candidate.blocks[2] + 3),
        )
    return (_case(candidate, few, 1), _case(candidate, around, 2))


def _case(candidate: "Candidate", size: tuple[int, int, int], ctas: int) -> Case:
    m, n, k = size
    of_a, of_b = (
        _smem_bytes(each, gradient.size(m, n, k)[2])
        for gradient, each in candidates(candidate)
    )
    persistent = candidate.spec.schedule.persistent
    return Case(
        m=m,
        n=n,
        k=k,
        smem_bytes=_smem_bytes(candidate, k),
        simulate=True,
        num_sms=ctas * candidate.cluster if persistent else None,
        differentiate=True,
        grad_a_smem_bytes=of_a,
        grad_b_smem_bytes=of_b,
    )


def _smem_bytes(candidate: "Candidate", depth: int) -> int:
    steps = math.ceil(depth / candidate.blocks[2])
    return candidate.smem(num_steps=steps).total
