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


def candidates(candidate: "Candidate") -> Iterator[tuple[Gradient, "Candidate"]]:
    """Yields the gradients of A and of B with a candidate of each."""
    for gradient in gradients(candidate.layout):
        yield gradient, dataclasses.replace(candidate, layout=gradient.layout)


def cases(candidate: "Candidate") -> tuple[Case, ...]:
    """Returns the sizes at which the gradients are verified, beside the product."""
    if not candidate.autodiff:
        return ()
    chosen = sizes.differentiated(
        candidate.units_to_differentiate,
        candidate.blocks,
        candidate.max_concurrent_steps,
    )
    return tuple(_case(candidate, size, ctas) for size, ctas in chosen)


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
