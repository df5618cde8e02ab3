"""The sizes at which a module is verified, and what it must refuse, by what it says."""

from collections.abc import Iterator
from typing import Any

from kgen import cases
from kgen.module_text import Described
from kgen.verify.request import RequestCase
from kgen.verify.table import Table

EVERY_SIZE = (1, 1, 1)
"""What sizes must be multiples of, if a module takes all: zero, too."""


def limits(described: Described, table: Table | None, *, alone: bool) -> dict[str, Any]:
    """Returns what a module must refuse: fields of a request."""
    known: dict[str, Any] = {
        "units": described.multiples,
        "grad_units": described.to_differentiate or (),
        "batched": described.batched,
    }
    if alone:
        any_edge = described.multiples == EVERY_SIZE
        return {**known, "blocks": described.tile if any_edge else described.multiples}
    # Of other modules that need each other, nobody knows what they refuse.
    return {} if table is None else {**known, "table": table.to_json()}


def own(described: Described) -> tuple[RequestCase, ...]:
    """Returns the sizes at which a module is verified if none are asked for."""
    return (*_products(described), *_with_gradients(described))


def _products(described: Described) -> tuple[RequestCase, ...]:
    if described.batched:
        return _batches(described)
    if described.multiples == EVERY_SIZE:
        return _edges(described)
    counts = cases.tile_counts(*described.multiples)
    if described.persistent:
        shared = cases.persistent(counts, described.stages)
    else:
        around = cases.once_around(described.stages)
        shared = tuple((count, 0) for count in (*counts, *around))
    return tuple(
        RequestCase(
            m=m * described.multiples[0],
            n=n * described.multiples[1],
            k=k * described.multiples[2],
            num_sms=ctas * described.cluster or None,
        )
        for (m, n, k), ctas in shared
    )


def _with_gradients(described: Described) -> Iterator[RequestCase]:
    """Yields the sizes at which the gradients are verified, if there are any."""
    units = described.to_differentiate
    if units is None:
        return
    exact = described.multiples != EVERY_SIZE
    blocks = described.multiples if exact else described.tile
    for size, ctas in cases.differentiated(units, blocks, described.stages):
        m, n, k = size
        num_sms = ctas * described.cluster if described.persistent else None
        yield RequestCase(m=m, n=n, k=k, num_sms=num_sms, differentiate=True)


def _edges(described: Described) -> tuple[RequestCase, ...]:
    """Returns such sizes of a module that takes every size."""
    return tuple(
        RequestCase(
            m=m,
            n=n,
            k=k,
            num_sms=ctas * described.cluster if described.persistent else None,
        )
        for (m, n, k), ctas in cases.edges(described.tile, described.stages)
    )


def _batches(described: Described) -> tuple[RequestCase, ...]:
    """Returns batches of a module that takes them."""
    any_edge = described.multiples == EVERY_SIZE
    found = cases.batches(
        described.tile if any_edge else described.multiples,
        described.stages,
        persistent=described.persistent,
        any_edge=any_edge,
    )
    return tuple(
        RequestCase(
            m=each.size[0],
            n=each.size[1],
            k=each.size[2],
            num_sms=each.ctas * described.cluster or None,
            a_batch=each.a_batch,
            b_batch=each.b_batch,
        )
        for each in found
    )
