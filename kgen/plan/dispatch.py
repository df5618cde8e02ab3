"""The planner of `op = "dispatch"`: which kernel is picked at which size."""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import ClassVar

from kgen.errors import Problem, SpecError
from kgen.plan.base import OperationPlan
from kgen.plan.beside import Beside
from kgen.plan.dispatch_rules import ANY_EDGE, BATCHED, TWICE, UNABLE, UNLIKE
from kgen.plan.model import MatmulPlan
from kgen.spec.dispatch import DispatchSpec
from kgen.spec.source import SourcedSpec

type Shape = tuple[int, int, int]

# What all kernels of a module have in common, and what each is called in a spec.
_COMMON = {
    "operand_dtype": "dtypes.a",
    "b_dtype": "dtypes.b",
    "out_dtype": "dtypes.out",
    "layout": "kernel.layout",
    "out_order": "kernel.out_order",
    "arch": "kernel.arch",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernel:
    """One of the kernels.

    Attributes:
      name: Name of its module.
      units: What m, n and k must be multiples of.
      max_m: The largest m; None if there is no limit.
    """

    name: str
    units: Shape
    max_m: int | None

    def can_do(self, shape: Shape) -> bool:
        """Whether it takes a size (m, n, k)."""
        fits = self.max_m is None or shape[0] <= self.max_m
        return fits and min(shape) > 0 and is_multiple(shape, self.units)

    def can_do_all_of(self, other: "Kernel") -> bool:
        """Whether it takes every size that `other` takes."""
        most = math.inf if self.max_m is None else self.max_m
        others = math.inf if other.max_m is None else other.max_m
        return others <= most and is_multiple(other.units, self.units)

    def __str__(self) -> str:
        limit = "" if self.max_m is None else f" with m at most {self.max_m}"
        return f"{self.units}{limit}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bucket:
    """One size of the table.

    Attributes:
      shape: (m, n, k).
      kernel: Name of the kernel that is picked there.
    """

    shape: Shape
    kernel: str

    @property
    def name(self) -> str:
        return "x".join(map(str, self.shape))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DispatchPlan(OperationPlan):
    """What kgen decided for `op = "dispatch"`.

    Attributes:
      layout: As that of every kernel: see `kgen.layouts`.
      out_order: As that of every kernel.
      operand_dtype: Elements of A.
      b_dtype: Elements of B.
      out_dtype: Elements of the result.
      kernels: The kernels, by name.
      buckets: The table, in the order of the spec.
      needed: The plans of the kernels, by name.
    """

    op: ClassVar[str] = "dispatch"
    layout: str
    out_order: str
    operand_dtype: str
    b_dtype: str
    out_dtype: str
    kernels: tuple[Kernel, ...]
    buckets: tuple[Bucket, ...]
    needed: tuple[MatmulPlan, ...]

    def choose(self, shape: Shape) -> Bucket | None:
        """Returns the bucket whose kernel the module picks for a size; None without one."""
        able = {kernel.name for kernel in self.kernels if kernel.can_do(shape)}
        return min(
            (bucket for bucket in self.buckets if bucket.kernel in able),
            key=lambda bucket: distance(bucket.shape, shape),
            default=None,
        )

    @property
    def allowed(self) -> str:
        """What sizes must be multiples of for some kernel, in words."""
        return " or of ".join(map(str, self.least_demanding()))

    def least_demanding(self) -> tuple[Kernel, ...]:
        """Returns the kernels that can do all that any of them can, the finest first."""
        kernels = sorted(self.kernels, key=lambda kernel: math.prod(kernel.units))
        kept: list[Kernel] = []
        for kernel in kernels:
            if not any(other.can_do_all_of(kernel) for other in kept):
                kept.append(kernel)
        return tuple(kept)


def natural(name: str) -> list[str | int]:
    """Returns what names are sorted by: their numbers count as numbers, as linters like it."""
    parts = re.split(r"(\d+)", name.lower())
    return [int(part) if part.isdigit() else part for part in parts]


def is_multiple(sizes: Shape, units: Shape) -> bool:
    """Whether every one of three sizes is a multiple of its unit."""
    return all(size % unit == 0 for size, unit in zip(sizes, units, strict=True))


def distance(a: Shape, b: Shape) -> float:
    """Returns how many doublings and halvings of m, n and k lead from a size to another."""
    return sum(abs(math.log2(x / y)) for x, y in zip(a, b, strict=True))


def plan(source: SourcedSpec) -> DispatchPlan:
    """Returns the plan for one spec.

    Raises:
      SpecError: the spec breaks rules; every breach is told.
    """
    spec = source.spec
    assert isinstance(spec, DispatchSpec), "the spec of a dispatch module"
    beside = Beside(source)
    found: dict[str, MatmulPlan] = {}
    problems: list[Problem] = []
    for index, bucket in enumerate(spec.bucket):
        key = f"bucket.{index}.kernel"
        kernel = found.get(bucket.kernel) or beside.plan_of(bucket.kernel, key)
        if isinstance(kernel, Problem):
            problems.append(kernel)
            continue
        problems += _unlike(source, key, kernel, next(iter(found.values()), kernel))
        problems += _any_edge(source, key, kernel)
        problems += _batched(source, key, kernel)
        found[kernel.name] = kernel
    kernels = {name: _kernel(found[name]) for name in sorted(found, key=natural)}
    problems += _unable(source, spec, kernels)
    problems += _twice(source, spec)
    if problems:
        raise SpecError(tuple(sorted(problems, key=lambda p: p.line or 0)))
    needed = tuple(found[name] for name in kernels)
    made = DispatchPlan.of(
        source,
        layout=needed[0].layout,
        out_order=needed[0].out_order,
        operand_dtype=needed[0].operand_dtype,
        b_dtype=needed[0].b_dtype,
        out_dtype=needed[0].out_dtype,
        kernels=tuple(kernels.values()),
        buckets=tuple(
            Bucket(shape=(m, n, k), kernel=bucket.kernel)
            for bucket in spec.bucket
            for m, n, k in bucket.shapes
        ),
        needed=needed,
    )
    return dataclasses.replace(
        made,
        spec_digest=_with_kernels(made, made.spec_digest),
        test_digest=_with_kernels(made, made.test_digest),
    )


def _kernel(made: MatmulPlan) -> Kernel:
    return Kernel(name=made.name, units=made.units, max_m=made.max_m)


def _with_kernels(made: DispatchPlan, digest: str) -> str:
    """Returns a digest of what a spec says, and of what it takes from the kernels'."""
    dtypes = [made.operand_dtype, made.b_dtype, made.out_dtype]
    taken = [made.layout, made.out_order, *dtypes]
    kernels = [dataclasses.asdict(kernel) for kernel in made.kernels]
    text = json.dumps([digest, taken, kernels], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _any_edge(source: SourcedSpec, key: str, made: MatmulPlan) -> Iterator[Problem]:
    if made.any_edge:
        yield source.problem(
            key,
            ANY_EDGE.code,
            f'bucket.kernel = "{made.name}" has shapes.edge = "any"',
            allowed='kernels with shapes.edge = "exact"',
            hint=f"call {made.name} itself; see `kgen rule {ANY_EDGE.code}`",
        )


def _batched(source: SourcedSpec, key: str, made: MatmulPlan) -> Iterator[Problem]:
    if made.batched:
        yield source.problem(
            key,
            BATCHED.code,
            f'bucket.kernel = "{made.name}" has shapes.batch = true',
            allowed="kernels with shapes.batch = false",
            hint=f"call {made.name} itself; see `kgen rule {BATCHED.code}`",
        )


def _unlike(
    source: SourcedSpec, key: str, made: MatmulPlan, first: MatmulPlan
) -> Iterator[Problem]:
    for attribute, called in _COMMON.items():
        own, other = getattr(made, attribute), getattr(first, attribute)
        if own != other:
            yield source.problem(
                key,
                UNLIKE.code,
                f'bucket.kernel = "{made.name}" has {called} = "{own}"',
                allowed=f'"{other}", as that of {first.name}',
                hint="give each kind of operands a dispatch module of its own",
            )


def _unable(
    source: SourcedSpec, spec: DispatchSpec, kernels: dict[str, Kernel]
) -> Iterator[Problem]:
    for index, bucket in enumerate(spec.bucket):
        kernel = kernels.get(bucket.kernel)
        for number, (m, n, k) in enumerate(bucket.shapes):
            if kernel is not None and not kernel.can_do((m, n, k)):
                yield source.problem(
                    f"bucket.{index}.shapes.{number}",
                    UNABLE.code,
                    f"{kernel.name} cannot do m={m}, n={n}, k={k}",
                    allowed=f"multiples of {kernel}",
                    hint="name another kernel for this size, or leave it to the nearest",
                )


def _twice(source: SourcedSpec, spec: DispatchSpec) -> Iterator[Problem]:
    first: dict[tuple[int, ...], str] = {}
    for index, bucket in enumerate(spec.bucket):
        for number, shape in enumerate(bucket.shapes):
            if shape in first:
                m, n, k = shape
                yield source.problem(
                    f"bucket.{index}.shapes.{number}",
                    TWICE.code,
                    f"m={m}, n={n}, k={k} is in a bucket of {first[shape]} already",
                    allowed="every size once",
                    hint="keep it where the faster kernel is",
                )
            first.setdefault(shape, bucket.kernel)
