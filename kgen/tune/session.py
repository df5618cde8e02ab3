"""One tuning of a spec at a shape, from the file to what was found."""

import dataclasses
import functools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgen import operations
from kgen.arch import ARCHS
from kgen.errors import UsageError
from kgen.layouts import ROW
from kgen.measure.problem import Problem
from kgen.plan.model import MatmulPlan
from kgen.spec import tune
from kgen.spec.document import document_of, shown, text_of
from kgen.spec.load import load_file
from kgen.spec.model import Spec
from kgen.spec.schema import spec_node
from kgen.spec.source import SourcedSpec
from kgen.tune import cost, space
from kgen.tune.cost import Cost
from kgen.tune.meter import GPU_METER
from kgen.tune.pool import Pool
from kgen.tune.prune import Legal, Pruned, Pruner, figures
from kgen.tune.records import Key
from kgen.tune.search import Found, Progress, Search
from kgen.tune.space import Shape
from kgen.tune.store import Store
from kgen.tune.tasks import Limits, Setup

TUNED = ("matmul",)
"""Operations that `kgen.tune.meter` can measure."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """What is tuned.

    Attributes:
      path: The spec's file.
      content: Its bytes when it was read.
      source: The spec.
      shape: (m, n, k).
      pruned: The space, and what of it is legal.
      costs: What the model predicts, by the candidate's digest.
      candidates: The legal ones, the best predicted first.
    """

    path: Path
    content: bytes
    source: SourcedSpec
    shape: Shape
    pruned: Pruned
    costs: dict[str, Cost]
    candidates: tuple[Legal, ...]


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


def read(path: Path, shape: Shape) -> Subject:
    """Returns what there is to tune.

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
    op = source.spec.kernel.op
    if op not in TUNED:
        allowed = ", ".join(TUNED)
        raise UsageError(f"{path}: {op} cannot be measured yet\n  allowed: {allowed}")
    if isinstance(source.spec, Spec) and source.spec.epilogue:
        raise UsageError(
            f"{path}: a kernel with an epilogue cannot be tuned\n"
            "  allowed: a matmul without [[epilogue]]\n"
            "  hint: tune the product alone, and take its tile and schedule over"
        )
    if isinstance(source.spec, Spec) and source.spec.scales.block is not None:
        raise UsageError(
            f"{path}: a kernel with scales cannot be tuned\n"
            "  allowed: a matmul without [scales]\n"
            "  hint: tune it with pipeline.promote alone, and take tile and schedule over"
        )
    name = shown(path)
    document = document_of(text_of(path, name), name)
    axes = tune.axes(document, spec_node(operations.get(op).spec))
    num_sms = ARCHS[source.spec.kernel.arch].num_sms
    candidates = (
        space.of_axes(axes) if axes else space.default(source.spec, shape, num_sms)
    )
    pruner = Pruner(source, tune.without(document), shape)
    pruned = pruner.prune(candidates, deepest=not axes)
    if not pruned.legal:
        raise UsageError(_nothing_legal(path, shape, pruned))
    costs = {each.digest: _cost(each, shape) for each in pruned.legal}
    ordered = sorted(pruned.legal, key=lambda each: costs[each.digest].us)
    return Subject(
        path=path,
        content=content,
        source=source,
        shape=shape,
        pruned=pruned,
        costs=costs,
        candidates=tuple(ordered),
    )


def _cost(legal: Legal, shape: Shape) -> Cost:
    assert isinstance(legal.plan, MatmulPlan), "the plan of a matmul"
    return cost.predict(figures(legal.plan, shape))


def _nothing_legal(path: Path, shape: Shape, pruned: Pruned) -> str:
    m, n, k = shape
    told = [
        f"\n  {count} break {rule}, such as {pruned.examples[rule]}"
        for rule, count in pruned.by_rule.items()
    ]
    return (
        f"{path}: none of {pruned.total} candidates is legal and takes"
        f" m={m}, n={n}, k={k}{''.join(told)}"
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
    """
    from kgen.emit.render import render_unformatted, template_digest

    plan = _plan_of(subject)
    problem = Problem(
        shape=subject.shape,
        operand_dtype=plan.operand_dtype,
        b_dtype=plan.b_dtype,
        out_dtype=plan.out_dtype,
        layout=plan.layout,
        out_order=plan.out_order,
    )
    setup = Setup(
        meter=options.meter, problem=problem, arch=plan.arch, function=plan.op
    )
    digest = template_digest(plan.op, templates=options.templates)
    render: Any = functools.partial(render_unformatted, templates=options.templates)
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
        return key, search.run()


def key_of(subject: Subject, machine: Mapping[str, str], template: str) -> Key:
    """Returns what the results of a search hold for."""
    plan, spec = _plan_of(subject), subject.source.spec
    assert isinstance(spec, Spec), "the spec of a matmul"
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
    )


def _operands(plan: MatmulPlan) -> str:
    """Returns the operands' dtypes; one word if they are the same."""
    return " x ".join(dict.fromkeys((plan.operand_dtype, plan.b_dtype)))


def _plan_of(subject: Subject) -> MatmulPlan:
    """Returns a plan of the subject: what all of them have in common."""
    plan = subject.candidates[0].plan
    assert isinstance(plan, MatmulPlan), "the plan of a matmul"
    return plan


def now() -> float:
    """Returns the time that budgets are counted by."""
    return time.monotonic()
