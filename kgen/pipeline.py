"""The way of the data, in one place:

    load -> validate -> plan -> render -> format -> verify -> write

A stage is a function from frozen values to frozen values and knows no other stage.
Only `verify` runs a module, only `write` touches the user's files. Whatever the
parallelism, outcomes come in the order of the specs.
"""

import contextlib
import dataclasses
import functools
import json
import textwrap
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.emit.placement import PLAIN, Placement, place
from kgen.errors import KgenError, Problem, SpecError, VerificationError
from kgen.workers import Track, in_processes, in_threads

# What brings pydantic, jinja2 and black is imported by the functions that need it: a
# command that stops early does not wait for them.
if TYPE_CHECKING:
    from kgen.emit.render import Module
    from kgen.emit.write import Target
    from kgen.plan.base import Plan
    from kgen.verify.request import Request, Verdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How to render.

    Attributes:
      out: Directory for the modules; their tests belong in `tests` below it.
      templates: Directories whose templates come before the shipped ones.
      verify: Whether a module must be verified before it is written.
      jobs: Specs that are worked on at once.
      force: Whether to overwrite files that are not kgen's or were edited.
      timeout: Seconds that one verification level may take.
      cache: Whether remembered verdicts count.
      placement: How the files are imported and begin.
      keep: Whether a file that was edited or is not kgen's is left as it is, while the
        other of module and test is written; otherwise neither is.
    """

    out: Path
    templates: tuple[Path, ...] = ()
    verify: bool = True
    jobs: int = 1
    force: bool = False
    timeout: float = 300.0
    cache: bool = True
    placement: Placement = PLAIN
    keep: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one spec.

    Attributes:
      name: Name of the kernel.
      targets: The places of the test and of the module, as they were before; empty if
        there is no text to put there.
      verdict: What verification found; None if it was not asked.
      error: Why nothing was written or compared; None if all went well.
    """

    name: str
    targets: "tuple[Target, ...]" = ()
    verdict: "Verdict | None" = None
    error: KgenError | None = None


def plan_all(paths: Sequence[Path]) -> "tuple[Plan, ...]":
    """Loads, validates and plans every spec in `paths`: files or directories.

    Raises:
      SpecError: specs are invalid; every problem of every spec is told.
      FileError: a file cannot be read.
      UsageError: there are no specs.
    """
    from kgen.plan import make_plan
    from kgen.spec.load import find_specs, load_all

    files = find_specs(paths)
    try:
        specs = load_all(files)
    except SpecError as error:
        problems = dict.fromkeys(error.problems + _broken_rules(files))
        raise SpecError(tuple(problems)) from None
    plans, found = [], list[Problem]()
    for spec in specs:
        try:
            plans.append(make_plan(spec))
        except SpecError as error:
            found.extend(error.problems)
    if found:
        raise SpecError(tuple(found))
    return tuple(plans)


def make(plans: "Sequence[Plan]", options: Options, track: Track) -> Generator[Outcome]:
    """Renders, verifies and writes the module of every plan, and its test."""
    from kgen.emit.tree import remove_stale_temporaries

    for directory in (options.out, options.out / "tests"):
        remove_stale_temporaries(directory)
    jobs = [
        _prepare(plan, module, options)
        for plan, module in zip(plans, _render_all(plans, options, track), strict=True)
    ]
    with contextlib.closing(_verify_all(jobs, options, track)) as verified:
        for job in verified:
            yield _write(job, options)


def compare(
    plans: "Sequence[Plan]", options: Options, track: Track, *, prove: bool = False
) -> Generator[Outcome]:
    """Compares what every plan yields with the files; verifies and writes nothing."""
    modules = _render_all(plans, options, track, prove=prove)
    for plan, module in zip(plans, modules, strict=True):
        yield _inspect(plan, module, options).outcome


def make_text(plan: "Plan", options: Options) -> tuple[str, "Verdict | None"]:
    """Returns the text of a plan's module, and what verification found if asked.

    Raises:
      TemplateError: a template is wrong.
      VerificationError: the module failed verification.
    """
    from kgen.emit.render import render

    module = render(plan, templates=options.templates, verified=options.verify)
    module = place(module, options.placement)
    job = _verify(_Job(plan, module, Outcome(name=plan.name)), options)
    if job.outcome.error is not None:
        raise job.outcome.error
    return module.source, job.outcome.verdict


def render_all(
    plans: "Sequence[Plan]", jobs: int, track: Track, templates: tuple[Path, ...] = ()
) -> "Generator[tuple[Plan, Module | KgenError]]":
    """Yields every plan with its module, or with why there is none."""
    options = Options(out=Path(), templates=templates, jobs=jobs)
    yield from zip(plans, _render_all(plans, options, track), strict=True)


def request_of(
    plan: "Plan",
    module: "Module",
    *,
    templates: tuple[Path, ...] = (),
    placement: Placement = PLAIN,
) -> "Request":
    """Returns what the verifier is asked about a module.

    Args:
      plan: The module's plan.
      module: Its text, as it is placed.
      templates: Directories whose templates come before the shipped ones, for the
        modules that it imports from beside it.
      placement: Where it imports them from.
    """
    from kgen import operations
    from kgen.emit.render import render_unformatted

    operation = operations.get(plan.op)
    request: Request = operations.call(operation, "request", plan, module.source)
    needed: tuple[Plan, ...] = operations.call(operation, "needs", plan)
    if not needed:
        return request
    texts = {
        each.name: render_unformatted(each, templates=templates) for each in needed
    }
    return dataclasses.replace(
        request, beside=json.dumps(texts), package=placement.package_of_modules
    )


@dataclasses.dataclass(frozen=True)
class _Job:
    """A spec on its way: its outcome so far. Without a module the outcome is final."""

    plan: "Plan"
    module: "Module | None"
    outcome: Outcome

    def failed(self, error: KgenError) -> "_Job":
        outcome = dataclasses.replace(self.outcome, error=error)
        return dataclasses.replace(self, module=None, outcome=outcome)


def _broken_rules(files: Sequence[Path]) -> tuple[Problem, ...]:
    """Returns the broken legality rules of those files that can be loaded."""
    from kgen.plan import make_plan
    from kgen.spec.load import load_file

    problems: list[Problem] = []
    for path in files:
        with contextlib.suppress(SpecError):
            for spec in load_file(path):
                try:
                    make_plan(spec)
                except SpecError as error:
                    problems.extend(error.problems)
    return tuple(problems)


def _render_all(
    plans: "Sequence[Plan]", options: Options, track: Track, *, prove: bool = True
) -> "Generator[Module | KgenError]":
    """Yields the module of every plan, or why there is none."""
    return in_processes(
        functools.partial(
            _render,
            templates=options.templates,
            placement=options.placement,
            verified=options.verify,
            prove=prove,
        ),
        plans,
        jobs=options.jobs,
        track=track,
        doing="rendering",
    )


def _render(
    plan: "Plan",
    *,
    templates: tuple[Path, ...],
    placement: Placement,
    verified: bool,
    prove: bool,
) -> "Module | KgenError":
    from kgen.emit.render import render

    try:
        module = render(plan, templates=templates, verified=verified, prove=prove)
        return place(module, placement)
    except KgenError as error:
        return error


def _inspect(plan: "Plan", module: "Module | KgenError", options: Options) -> _Job:
    """Finds out how the files in the places of a module and its test compare."""
    from kgen.emit import tree
    from kgen.emit.write import inspect

    job = _Job(plan, None, Outcome(name=plan.name))
    if isinstance(module, KgenError):
        return job.failed(module)
    # The test goes first: if the machine stops in between, a test without its module
    # fails loudly, while nobody would notice a module without its test.
    outputs = (
        tree.output_of_test(options.out, module.name, module.test_source),
        tree.output_of_module(options.out, module.name, module.source),
    )
    try:
        targets = tuple(inspect(output) for output in outputs)
    except KgenError as error:
        return job.failed(error)
    return _Job(plan, module, dataclasses.replace(job.outcome, targets=targets))


def _prepare(plan: "Plan", module: "Module | KgenError", options: Options) -> _Job:
    """Refuses at once what could not be written after a long verification."""
    from kgen.emit import tree
    from kgen.emit.write import NotOwnedError, State

    job = _inspect(plan, module, options)
    targets = job.outcome.targets
    owned = [target for target in targets if options.force or target.state.owned]
    if len(owned) < len(targets) and not options.keep:
        return job.failed(NotOwnedError.of(targets))
    if not owned:
        # All is kept: there is nothing to verify.
        return dataclasses.replace(job, module=None)
    try:
        for target in owned:
            if target.state is not State.UNCHANGED:
                tree.check_writable(target.path.parent)
    except KgenError as error:
        return job.failed(error)
    return job


def _verify_all(
    jobs: Sequence[_Job], options: Options, track: Track
) -> Generator[_Job]:
    """Yields `jobs` verified, each in a worker process."""
    return in_threads(
        functools.partial(_verify, options=options),
        jobs,
        jobs=options.jobs,
        track=track,
        doing="verifying",
    )


def _verify(job: _Job, options: Options) -> _Job:
    """Verifies the module of `job`, unless it failed before or nobody asked."""
    if job.module is None or not options.verify:
        return job
    from kgen.verify import verify

    try:
        verdict = verify(
            request_of(
                job.plan,
                job.module,
                templates=options.templates,
                placement=options.placement,
            ),
            timeout=options.timeout,
            cache=options.cache,
        )
    except KgenError as error:
        return job.failed(error)
    outcome = dataclasses.replace(job.outcome, verdict=verdict)
    job = dataclasses.replace(job, outcome=outcome)
    if verdict.failure is not None or not verdict.passed:
        return job.failed(VerificationError(_describe_failure(job.plan.name, verdict)))
    return job


def _describe_failure(name: str, verdict: "Verdict") -> str:
    failure = verdict.failure
    if failure is None:
        return f"{name} is not verified: no level was run"
    happened = failure.status.replace("_", " ")
    took = "" if verdict.remembered else f" after {failure.seconds:.1f} s"
    with_jax = f" with JAX {verdict.jax_version}" if verdict.jax_version else ""
    return (
        f"{name} is not verified: {failure.level} {happened}{took}{with_jax}\n"
        + textwrap.indent(failure.detail, "    ")
    ).rstrip()


def _write(job: _Job, options: Options) -> Outcome:
    """Writes the module of `job` and its test, unless it failed before."""
    if job.module is None:
        return job.outcome
    from kgen.emit.write import write

    targets = job.outcome.targets
    kept = [
        t for t in targets if options.keep and not options.force and not t.state.owned
    ]
    outputs = [target.output for target in targets if target not in kept]
    try:
        found = {t.path: t for t in (*kept, *write(outputs, force=options.force))}
    except KgenError as error:
        return job.failed(error).outcome
    in_order = tuple(found[target.path] for target in targets)
    return dataclasses.replace(job.outcome, targets=in_order)
