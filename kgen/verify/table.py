"""Which kernel a module must pick by the size: a table, and what is right between.

As JSON:

    {"kernels": {NAME: {"units": [M, N, K], "max_m": LIMIT or null}},
     "buckets": [[[M, N, K], NAME], ...]}
"""

import dataclasses
import json
import math
from collections.abc import Iterator
from typing import Self

type Shape = tuple[int, int, int]

FACTORS = ((2, 1, 1), (1, 2, 1), (1, 1, 2), (3, 1, 1), (1, 5, 1), (1, 1, 3), (4, 1, 2))
"""How much larger the sizes between those of the table are than one of them."""
AS_NEAR = 1e-9
"""Difference of two distances that are the same."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel, and the sizes that it can do."""

    units: Shape
    max_m: int | None

    def can_do(self, size: Shape) -> bool:
        """Whether it takes a size (m, n, k)."""
        return (
            min(size) > 0
            and not any(x % unit for x, unit in zip(size, self.units, strict=True))
            and (self.max_m is None or size[0] <= self.max_m)
        )

    def can_do_all_of(self, other: Self) -> bool:
        """Whether it takes every size that `other` takes."""
        divides = not any(
            theirs % own for own, theirs in zip(self.units, other.units, strict=True)
        )
        return divides and (
            self.max_m is None
            or (other.max_m is not None and other.max_m <= self.max_m)
        )

    def __str__(self) -> str:
        limit = "" if self.max_m is None else f" with m at most {self.max_m}"
        return f"{self.units}{limit}"


@dataclasses.dataclass(frozen=True)
class Table:
    """Which kernel is right at which size."""

    kernels: dict[str, Kernel]
    buckets: dict[Shape, str]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the table that `to_json` wrote."""
        fields = json.loads(text)
        return cls(
            kernels={
                name: Kernel(tuple(of["units"]), of["max_m"])
                for name, of in fields["kernels"].items()
            },
            buckets={tuple(size): name for size, name in fields["buckets"]},
        )

    def to_json(self) -> str:
        """Returns the table as JSON: the same text for the same table."""
        kernels = {name: dataclasses.asdict(of) for name, of in self.kernels.items()}
        return json.dumps({"kernels": kernels, "buckets": [*self.buckets.items()]})

    @property
    def allowed(self) -> str:
        """What sizes must be multiples of for some kernel, in words."""
        kept: list[Kernel] = []
        for kernel in sorted(self.kernels.values(), key=lambda of: math.prod(of.units)):
            if not any(other.can_do_all_of(kernel) for other in kept):
                kept.append(kernel)
        return " or of ".join(map(str, kept))

    def nearest(self, size: Shape) -> list[Shape]:
        """Returns the sizes of the table that are as near as any whose kernel can do it."""
        distances = {
            bucket: distance(bucket, size)
            for bucket, name in self.buckets.items()
            if self.kernels[name].can_do(size)
        }
        least = min(distances.values(), default=0.0)
        return [bucket for bucket, far in distances.items() if far <= least + AS_NEAR]

    def sizes(self) -> Iterator[Shape]:
        """Yields the sizes of the table, sizes between them, and the ends of kernels."""
        for bucket in self.buckets:
            yield bucket
            for x, y, z in FACTORS:
                yield bucket[0] * x, bucket[1] * y, bucket[2] * z
        for kernel in self.kernels.values():
            m, n, k = kernel.units
            yield kernel.units
            yield from ((0, n, k), (m, 0, k), (m, n, 0))
            yield from ((m + 1, n, k), (m, n + 1, k), (m, n, k + 1))
            yield from ((-(-m // 2), n, k), (m, -(-n // 2), k), (m, n, -(-k // 2)))
            if kernel.max_m is not None:
                yield from ((kernel.max_m, n, k), (kernel.max_m + m, n, k))


def distance(a: Shape, b: Shape) -> float:
    """Returns the doublings and halvings that lead from one size to the other."""
    return sum(abs(math.log2(x) - math.log2(y)) for x, y in zip(a, b, strict=True))
