"""Which candidates are legal: those whose spec can be planned, and that take the shape.

The rules are those of rendering, so that nothing is proposed that is refused later.
"""

import copy
import dataclasses
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kgen import operations
from kgen.errors import Problem, SpecError
from kgen.plan import make_plan
from kgen.plan.base import Plan
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.model import MatmulPlan
from kgen.spec.keys import set_value
from kgen.spec.locate import KeyPath
from kgen.spec.model import AnySpec
from kgen.spec.schema import spec_node
from kgen.spec.source import SourcedSpec
from kgen.spec.validate import validate
from kgen.tune.candidate import Candidate
from kgen.tune.cost import Figures
from kgen.tune.site import Shape

SHAPE = "shape"
"""Stands where a rule's code would, for a kernel that does not take the shape."""

SHALLOW = "shallow"
"""The same for a ring that is shallower than several that fit; of the default space."""

SAME = "same"
"""The same for one that says what another one does in other words."""

DEEPEST = 3
# What a kernel does not depend on.
NAMES: dict[str, Any] = {
    "kernel": {"name": True, "doc": True},
    "test": True,
    "verify": True,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Legal:
    """A candidate that can be rendered.

    Attributes:
      candidate: The candidate.
      digest: Digest of its spec, without what the kernel does not depend on.
      plan: Its plan.
    """

    candidate: Candidate
    digest: str
    plan: Plan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pruned:
    """What is left of a space.

    Attributes:
      legal: Candidates that can be rendered, in the order of the space.
      by_rule: Candidates that cannot, counted by the first rule that each breaks.
      examples: What the first candidate that broke a rule was told.
    """

    legal: tuple[Legal, ...]
    by_rule: dict[str, int]
    examples: dict[str, str]

    @property
    def total(self) -> int:
        """Candidates of the space."""
        return len(self.legal) + sum(self.by_rule.values())


class Pruner:
    """Plans the variants of one spec for one shape."""

    def __init__(
        self,
        base: SourcedSpec,
        document: dict[str, Any],
        shape: Shape,
        batch: tuple[int, ...] = (),
    ) -> None:
        """Takes the spec as it is loaded, and the document that it was loaded from."""
        self._base = base
        self._document = document
        self._shape, self._batch = shape, batch
        self._model = operations.get(base.spec.kernel.op).spec
        self._root = spec_node(self._model)

    def prune(self, candidates: Iterable[Candidate], *, deepest: bool) -> Pruned:
        """Returns the legal ones of `candidates`.

        Args:
          candidates: The space.
          deepest: Whether to keep only the deepest rings of otherwise equal candidates.
        """
        legal: list[Legal] = []
        counts, examples = Counter[str](), dict[str, str]()
        seen = set[str]()
        for candidate in candidates:
            try:
                each = self.plan(candidate)
            except SpecError as error:
                first = error.problems[0]
                counts[first.code] += 1
                examples.setdefault(first.code, f"{candidate.label}: {first.message}")
                continue
            if each.digest in seen:
                counts[SAME] += 1
                examples.setdefault(SAME, f"{candidate.label}: tried already")
                continue
            seen.add(each.digest)
            legal.append(each)
        if deepest:
            kept = _deepest(legal)
            if len(kept) < len(legal):
                counts[SHALLOW] = len(legal) - len(kept)
                examples[SHALLOW] = f"{DEEPEST} deeper rings fit"
            legal = kept
        return Pruned(
            legal=tuple(legal), by_rule=dict(counts.most_common()), examples=examples
        )

    def plan(self, candidate: Candidate) -> Legal:
        """Returns a candidate with its plan.

        Raises:
          SpecError: it breaks a rule, or does not take the shape.
        """
        source = dataclasses.replace(self._base, spec=self._spec(candidate))
        plan = make_plan(source)
        found = next(_misfits(plan, self._shape, self._batch), None)
        if found is not None:
            raise SpecError((_problem(source, SHAPE, found),))
        return Legal(candidate=candidate, digest=_digest(source.spec), plan=plan)

    def _spec(self, candidate: Candidate) -> AnySpec:
        data = copy.deepcopy(self._document)
        for key, value in candidate.values:
            path: KeyPath = tuple(key.split("."))
            if value is None:
                _remove(data, path)
            else:
                set_value(data, path, value)
        spec, findings = validate(data, self._model, self._root)
        if spec is None:
            raise SpecError(
                tuple(_problem(self._base, f.code, f.message) for f in findings)
            )
        return spec


def _digest(spec: AnySpec) -> str:
    said = spec.model_dump(mode="json", exclude_defaults=True, exclude=NAMES)
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _problem(source: SourcedSpec, code: str, message: str) -> Problem:
    return Problem(path=source.path, line=None, code=code, message=message)


def _remove(table: dict[str, Any], path: KeyPath) -> None:
    *parents, last = path
    for part in parents:
        table = table.get(str(part), {})
    table.pop(str(last), None)


def _misfits(plan: Plan, shape: Shape, batch: tuple[int, ...]) -> Iterator[str]:
    """Yields why a kernel does not take a shape, if it does not."""
    if not isinstance(plan, MatmulPlan):
        return
    if batch and not plan.batched:
        yield "it takes no batch"
    for axis, size, unit in zip("mnk", shape, plan.units, strict=True):
        if size == 0 or size % unit:
            yield f"{axis} = {size} is not a positive multiple of {unit}"
    if plan.max_m is not None and shape[0] > plan.max_m:
        yield f"m = {shape[0]:,} is more than {plan.max_m:,}, the most without a raster"
    matrices = math.prod(batch)
    if plan.max_matrices is not None and matrices > plan.max_matrices:
        yield f"{matrices:,} matrices are more than {plan.max_matrices:,}"


def _deepest(legal: Sequence[Legal]) -> list[Legal]:
    """Returns the candidates with the deepest rings of those that are equal otherwise."""
    key = "pipeline.max_concurrent_steps"
    families: dict[tuple[Any, ...], list[Legal]] = {}
    for each in legal:
        family = tuple(pair for pair in each.candidate.values if pair[0] != key)
        families.setdefault(family, []).append(each)

    def stages(each: Legal) -> int:
        value = each.candidate.get(key)
        return value if isinstance(value, int) else 0

    kept = {
        id(each)
        for family in families.values()
        for each in sorted(family, key=stages, reverse=True)[:DEEPEST]
    }
    return [each for each in legal if id(each) in kept]


def figures(plan: MatmulPlan, shape: Shape, batch: tuple[int, ...] = ()) -> Figures:
    """Returns what the cost model knows of a matmul, or of a gated linear unit."""
    raster = plan.raster
    return Figures(
        shape=shape,
        tile=(plan.tile_m, plan.tile_n, plan.tile_k),
        stages=plan.max_concurrent_steps,
        compute_wgs=plan.num_compute_wgs,
        wg_tile=(plan.wg_m, plan.wg_n),
        itemsize=ITEMSIZE[plan.operand_dtype],
        out_itemsize=ITEMSIZE[plan.out_dtype],
        smem_bytes=plan.smem.total,
        in_flight=plan.wgmma_in_flight,
        persistent=plan.persistent,
        ping_pong=plan.ping_pong,
        split_k=plan.split_k,
        swapped=plan.swap_operands,
        cluster=(plan.cluster_m, plan.cluster_n),
        raster=None if raster is None else (raster.order, raster.width),
        matrices=math.prod(batch),
        weights=plan.weights,
        promoted=plan.promote,
    )
