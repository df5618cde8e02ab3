"""One tuning of a spec at a shape, from the file to what was found."""

import dataclasses
import functools
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgen import operations
from kgen.arch import ARCHS
from kgen.epilogue.steps import Step, write
from kgen.errors import UsageError
from kgen.layouts import ROW
from kgen.measure.computed import Computed
from kgen.measure.problem import Problem, size_text
from kgen.plan.dispatch import DispatchPlan
from kgen.plan.model import MatmulPlan
from kgen.spec import tune
from kgen.spec.document import document_of, shown, text_of
from kgen.spec.load import load_file
from kgen.spec.model import AnySpec, Spec
from kgen.spec.schema import spec_node
from kgen.spec.source import SourcedSpec
from kgen.tune import cost, space
from kgen.tune.cost import Cost
from kgen.tune.meter import GPU_METER
from kgen.tune.pool import Pool
from kgen.tune.prune import Legal, Pruned, Pruner, figures
from kgen.tune.records import Key
from kgen.tune.search import Found, Progress, Search
from kgen.tune.site import Shape
from kgen.tune.store import Store
from kgen.tune.tasks import Limits, Setup
from kgen.verify.request import GLU, MATMUL, Request, RequestCase

TUNED = (MATMUL, GLU)
"""Operations that `kgen.tune.meter` can measure."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """What is tuned.

    Attributes:
      path: The spec's file.
      content: Its bytes when it was read.
      source: The spec.
      shape: (m, n, k).
      batch: Leading dimensions of operands and result.
      pruned: The space, and what of it is legal.
      costs: What the model predicts, by the candidate's digest.
      candidates: The legal ones, the best predicted first.
    """

    path: Path
    content: bytes
    source: SourcedSpec
    shape: Shape
    batch: tuple[int, ...]
    pruned: Pruned
    costs: dict[str, Cost]
    candidates: tuple[Legal, ...]

    @property
    def plan(self) -> MatmulPlan:
        """The plan of one: what is computed is the same for all."""
        return self._plans[0]

    @property
    def _plans(self) -> tuple[MatmulPlan, ...]:
        plans = [each.plan for each in self.candidates]
        return tuple(plan for plan in plans if isinstance(plan, MatmulPlan))

    @functools.cached_property
    def request(self) -> Request:
        """What is asked of every candidate, without a source."""
        operation = operations.get(self.plan.op)
        made: Request = operations.call(operation, "request", self.plan, "")
        m, n, k = self.shape
        case = RequestCase(m=m, n=n, k=k, a_batch=self.batch, b_batch=self.batch)
        # All are compared within the widest of their tolerances.
        promoted = {plan.promoted for plan in self._plans}
        return dataclasses.replace(
            made, cases=(case,), promoted=0 if 0 in promoted else max(promoted)
        )

    @property
    def problem(self) -> Problem:
        """The product, or one of those of a gated linear unit."""
        return Problem.of(self.request)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How it is tuned.

    Attributes:
      results: The file of results.
      budget: Seconds for all of it.
      jobs: Workers.
      limit: The most candidates that are measured; None for all.
      limits: Seconds that a worker may take.
      templates: Directories whose templates come before the shipped ones.
      meter: What measures, as a worker imports it.
    """

    results: Path
    budget: float
    jobs: int
    limit: int | None = None
    limits: Limits = dataclasses.field(default_factory=Limits)
    templates: tuple[Path, ...] = ()
    meter: str = GPU_METER


def read(path: Path, shape: Shape, batch: tuple[int, ...] = ()) -> Subject:
    """Returns what there is to tune.

    Args:
      path: The spec's file.
      shape: (m, n, k).
      batch: Leading dimensions of operands and result.

    Raises:
      SpecError: the spec is invalid.
      FileError: it cannot be read.
      UsageError: it is several specs, its operation cannot be tuned, or no candidate
        takes the shape.
    """
    # Before all else: what is written later must be what is read now.
    content = path.read_bytes() if path.is_file() else b""
    specs = load_file(path)
    if specs[0].variant:
        raise UsageError(
            f"{path} has a [matrix] of {len(specs)} specs; one kernel is tuned at a"
            " time\n  hint: write a spec for each, and a [tune] with the values to try"
        )
    (source,) = specs
    _refuse_untuned(path, source.spec.kernel.op)
    name = shown(path)
    document = document_of(text_of(path, name), name)
    op = operations.get(source.spec.kernel.op)
    axes = tune.axes(document, spec_node(op.spec))
    _refuse_batch(path, source.spec, batch)
    num_sms = ARCHS[source.spec.kernel.arch].num_sms
    candidates = (
        space.of_axes(axes)
        if axes
        else space.default(source.spec, shape, num_sms, math.prod(batch))
    )
    pruner = Pruner(source, tune.without(document), shape, batch)
    pruned = pruner.prune(candidates, deepest=not axes)
    if not pruned.legal:
        raise UsageError(_nothing_legal(path, size_text(shape, batch), pruned))
    costs = {each.digest: _cost(each, shape, batch) for each in pruned.legal}
    ordered = sorted(pruned.legal, key=lambda each: costs[each.digest].us)
    return Subject(
        path=path,
        content=content,
        source=source,
        shape=shape,
        batch=batch,
        pruned=pruned,
        costs=costs,
        candidates=tuple(ordered),
    )


def _refuse_untuned(path: Path, op: str) -> None:
    """Refuses an operation that cannot be measured, or is no kernel of its own."""
    if op in TUNED:
        return
    allowed = f"  allowed: {', '.join(TUNED)}"
    if op == DispatchPlan.op:
        raise UsageError(
            f"{path}: a dispatch has no schedule to tune: it picks among kernels\n"
            f"{allowed}\n  hint: tune the specs of the kernels that it names"
        )
    raise UsageError(f"{path}: {op} cannot be measured yet\n{allowed}")


def _refuse_batch(path: Path, spec: AnySpec, batch: tuple[int, ...]) -> None:
    """Refuses a batch of a kernel that takes none, whatever is tried."""
    takes_batch = isinstance(spec, Spec) and spec.shapes.batch
    if batch and not takes_batch:
        raise UsageError(
            f"{path}: {spec.kernel.name} takes no batch\n"
            "  allowed: M,N,K such as 4096,4096,4096, or shapes.batch = true"
        )


def _cost(legal: Legal, shape: Shape, batch: tuple[int, ...]) -> Cost:
    assert isinstance(legal.plan, MatmulPlan), "the plan of a product"
    return cost.predict(figures(legal.plan, shape, batch))


def _nothing_legal(path: Path, size: str, pruned: Pruned) -> str:
    told = [
        f"\n  {count} break {rule}, such as {pruned.examples[rule]}"
        for rule, count in pruned.by_rule.items()
    ]
    hint = (
        "what the spec says elsewhere stays in force, its [test] shapes, too;"
        " `kgen rule CODE` tells what a rule is about"
        if told
        else "no tile of the default space is as small; name tile.m, tile.n, tile.k and"
        " others in a [tune] table"
    )
    return (
        f"{path}: none of {pruned.total} candidates is legal and takes"
        f" {size}{''.join(told)}\n  hint: {hint}"
    )


def tune_subject(
    subject: Subject, options: Options, progress: Progress, started: float
) -> tuple[Key, Found]:
    """Measures and chooses; returns what the results hold for, and what was found.

    Args:
      subject: What is tuned.
      options: How.
      progress: Is told how it goes on.
      started: When the budget began to run, by `time.monotonic`.

    Raises:
      PoolError: nothing can be measured here.
      FileError: the results cannot be read or written.
      TemplateError: there is no template, or it fails where a reference is needed.
    """
    from kgen.emit.render import render_unformatted, template_digest

    request = subject.request
    digest = template_digest(request.op, templates=options.templates)
    render: Any = functools.partial(render_unformatted, templates=options.templates)
    if Computed.of(request).needs_reference:
        source = render(subject.plan)
        request = dataclasses.replace(request, source=source)
    setup = Setup(meter=options.meter, request=request.to_json())
    with (
        Store(options.results) as store,
        Pool(setup, jobs=options.jobs, limits=options.limits) as pool,
    ):
        for line in store.corrupt:
            progress.tell(f"{line}; skipped")
        machine = pool.start()
        key = key_of(subject, machine, digest)
        search = Search(
            key,
            subject.candidates[: options.limit],
            store=store,
            pool=pool,
            text_of=lambda legal: render(legal.plan),
            progress=progress,
            deadline=started + options.budget,
            budget=options.budget,
        )
        found = search.run()
    # Those beyond the limit were not tried either.
    left = len(subject.candidates) - len(found.records)
    return key, dataclasses.replace(found, left=left)


def key_of(subject: Subject, machine: Mapping[str, str], template: str) -> Key:
    """Returns what the results of a search hold for."""
    plan, spec = subject.plan, subject.source.spec
    assert isinstance(spec, Spec), "the spec of a product"
    return Key(
        op=plan.op,
        dtypes=(
            ("accumulator", spec.dtypes.accumulator),
            ("operands", _operands(plan)),
            ("out", plan.out_dtype),
        ),
        layout=plan.layout + f", {plan.out_order}" * (plan.out_order != ROW),
        shape=subject.shape,
        arch=plan.arch,
        device=machine["device"],
        jax=machine["jax"],
        template=template,
        epilogue="; ".join(map(_step_text, plan.epilogue)),
        activation=plan.activation,
        scale_block=plan.scale_block or 0,
        edge=spec.shapes.edge,
        batch=subject.batch,
    )


def _step_text(step: Step) -> str:
    """Returns a step with the dtype of its argument."""
    of = f" of {step.dtype}" if step.argument else ""
    return f"{write(step)}{of}"


def _operands(plan: MatmulPlan) -> str:
    """Returns the operands' dtypes; one word if they are the same."""
    return " x ".join(dict.fromkeys((plan.operand_dtype, plan.b_dtype)))


def now() -> float:
    """Returns the time that budgets are counted by."""
    return time.monotonic()
