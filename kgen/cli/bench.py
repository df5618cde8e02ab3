"""`kgen bench`: the time of kernels on a GPU, beside that of others."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.cli import EXIT_CODES
from kgen.cli._options import (
    DIRECTORY,
    FILE,
    PATH,
    check_finite,
    report_of,
    templates_option,
)
from kgen.cli._output import print_tables
from kgen.cli._project import project_here, specs_of, templates_of
from kgen.errors import ExitCode

if TYPE_CHECKING:
    from kgen.measure.bench import Job, Options
    from kgen.measure.results import Document
    from kgen.report import Report


@click.command(epilog=EXIT_CODES)
@click.argument("targets", nargs=-1, metavar="[SPECS | MODULES | FILE.py:FUNCTION]...")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="M,N,K",
    help="Sizes to measure at; 64xM,N,K is a batch of 64. May be repeated.",
)
@click.option(
    "--peer",
    "peer_names",
    multiple=True,
    metavar="PEER",
    help="What is measured in the same rounds: `xla`, `jax-example` (JAX's shipped Hopper "
    "matmul at the best of its sweep) or `torch`. May be repeated.  [default: xla]",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=3),
    default=10,
    show_default=True,
    help="How often each is timed, in turns.",
)
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=FILE,
    help="Write the results there, with the time of every round; anew after every kernel.",
)
@click.option(
    "--plot",
    metavar="DIR",
    type=DIRECTORY,
    help="Write roofline.svg and ratios.svg there.",
)
@click.option(
    "--compare",
    "old",
    metavar="OLD.json",
    type=PATH,
    help="Tell what changed since these results: in NEW.json, which then stands for the "
    "targets, or else in what is measured now; without targets, everything that is in "
    "OLD.json. Exit 1 if something became slower.",
)
@click.option(
    "--verify/--no-verify",
    default=False,
    show_default=True,
    help="Run the level `gpu` of `kgen verify` first, at the same sizes.",
)
@click.option(
    "--dtype",
    metavar="DTYPE",
    default="float16",
    show_default=True,
    help="Elements of A and B, for FILE.py:FUNCTION.",
)
@templates_option
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    default=300.0,
    show_default=True,
    help="Time that one kernel may take at one size, peers included.",
)
@click.option(
    "--sweep-budget",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    default=120.0,
    show_default=True,
    help="Time for the sweep of `jax-example` at one size.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print the tables alone.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    targets: tuple[str, ...],
    shapes: tuple[str, ...],
    peer_names: tuple[str, ...],
    rounds: int,
    json_file: Path | None,
    plot: Path | None,
    old: Path | None,
    verify: bool,
    dtype: str,
    templates: tuple[Path, ...],
    timeout: float,
    sweep_budget: float,
    quiet: bool,
) -> None:
    """Measure matmul kernels on the GPU, in turns with XLA's or another's.

    Every kernel is first shown to be right at that size; one that is not is never timed.
    Each runs in a process of its own with a time limit: to hang or to die is a result.

    \b
    kgen bench generated/bf16_128x256_ws.py --shape 4096,4096,4096
    kgen bench specs/fp16_128x128.toml --shape 4096,8192,4096 --peer xla --peer torch
    kgen bench --compare before.json after.json

    Modules need neither black nor pydantic nor a project file.
    """
    from kgen.measure import bench, files, peers

    before = files.load(old) if old else None
    if old and before and len(targets) == 1 and targets[0].endswith(".json"):
        now = files.load(Path(targets[0]))
        ctx.exit(_compare(before, now, (str(old), targets[0])))
    again = before if before and not targets and not shapes else None
    _check_usage(ctx, targets, json_file, plot)
    if not shapes and again is None:
        ctx.fail("Missing option '--shape', such as --shape 4096,4096,4096.")
    options = bench.Options(
        peers=tuple(dict.fromkeys(map(peers.check, peer_names))) or (peers.XLA,),
        rounds=rounds,
        timeout=timeout,
        sweep_budget=sweep_budget,
        verify=verify,
    )
    with report_of("kgen bench", "text", quiet=quiet) as report:
        if again is None:
            jobs = _jobs(targets, shapes, dtype, templates, report)
        else:
            jobs = _jobs_again(again, templates, report)
    now = _measure(jobs, options, json_file, quiet=quiet)
    code = _tell(now, plot, quiet=quiet)
    if old and before:
        code = max(code, _compare(before, now, (str(old), "this run")))
    ctx.exit(code)


def _check_usage(
    ctx: click.Context,
    targets: tuple[str, ...],
    json_file: Path | None,
    plot: Path | None,
) -> None:
    """Refuses, before anything runs, what cannot end well."""
    from kgen.measure import files
    from kgen.measure import plot as plots

    for name in targets:
        if name.endswith(".json"):
            ctx.fail(f"{name}: results are compared: --compare OLD.json {name}")
    if json_file is not None and not json_file.absolute().parent.is_dir():
        ctx.fail(f"--json {json_file}: there is no directory {json_file.parent}")
    if json_file is not None:
        files.check_place(json_file)
    if plot is not None:
        plots.check_place(plot)


def _jobs(
    targets: tuple[str, ...],
    shapes: tuple[str, ...],
    dtype: str,
    templates: tuple[Path, ...],
    report: "Report",
) -> "list[Job]":
    """Returns what is measured: every target at every size."""
    from kgen.measure.bench import jobs_of
    from kgen.targets import find_targets
    from kgen.targets.asked import Asked

    names, found_templates = list(targets), templates
    if not (targets and all(map(_is_code, targets))):
        # Reads the project file, for which a machine may lack what it takes.
        project = project_here()
        found_templates = templates_of(project, templates)
        names = []
        for given in [[Path(target)] for target in targets] or [[]]:
            places, notes = specs_of(project, given)
            names += map(str, places)
            for note in notes:
                report.announce(note)
    asked = Asked(shapes=shapes, dtype=dtype, templates=found_templates)
    jobs: list[Job] = []
    for target in find_targets(names, asked, report.track):
        if target.error is not None:
            raise target.error
        assert target.request is not None
        jobs += jobs_of(target.label, target.path, target.request)
    return jobs


def _jobs_again(
    before: "Document", templates: tuple[Path, ...], report: "Report"
) -> "list[Job]":
    """Returns what was measured before: the same targets at the same sizes."""
    jobs = []
    for record in before.results:
        is_spec = record.target.startswith(f"{record.path} (")
        name = record.path if is_spec else record.target
        found = _jobs((name,), (record.size,), record.operand_dtype, templates, report)
        # A spec may stand for several kernels.
        jobs += [job for job in found if job.request.name == record.name]
    return jobs


def _is_code(target: str) -> bool:
    """Whether a target is a module, a directory of some, or a function."""
    path = Path(target)
    if path.is_dir():
        return any(path.glob("*.py")) and not any(path.glob("*.toml"))
    return path.suffix == ".py" or ".py:" in target


def _measure(
    jobs: "list[Job]", options: "Options", json_file: Path | None, *, quiet: bool
) -> "Document":
    """Measures everything; what is done is written as soon as it is."""
    from kgen.errors import UsageError
    from kgen.measure import bench, files

    document = None
    with _stages(len(jobs), quiet=quiet) as stage:
        for document in bench.measure(jobs, options, stage=stage):
            if json_file is not None:
                files.save(document, json_file)
    if document is None:
        raise UsageError("there is nothing to measure: no target was found")
    return document


def _tell(document: "Document", plot: Path | None, *, quiet: bool) -> int:
    """Prints and draws results; returns the exit code."""
    from kgen.measure import results, tables
    from kgen.measure.plot import write_plots
    from kgen.streams import tell

    print_tables([tables.results_table(document)])
    for note in () if quiet else tables.notes(document):
        tell(note)
    if plot is not None:
        write_plots(document, plot)
    codes = {results.MEASURED: ExitCode.OK, results.REFUSED: ExitCode.USAGE}
    return max(
        codes.get(record.status, ExitCode.NOT_VERIFIED) for record in document.results
    )


def _compare(before: "Document", now: "Document", names: tuple[str, str]) -> int:
    """Prints what changed; returns the exit code."""
    from kgen.measure import compare, tables
    from kgen.streams import tell

    compare.check_machines(before, now, names)
    changes = compare.compare(before, now)
    for remark in compare.remarks(before, now):
        tell(f"note: {remark}")
    print_tables([tables.changes_table(changes)])
    return ExitCode.DIFFERS if any(c.is_bad for c in changes) else ExitCode.OK


@contextlib.contextmanager
def _stages(count: int, *, quiet: bool) -> "Iterator[Callable[[Job, str], None]]":
    """Yields what shows on a terminal which kernel is at which stage."""
    if quiet or not sys.stderr.isatty():
        yield lambda _job, _text: None
        return
    from rich.console import Console
    from rich.text import Text

    seen: list[Job] = []
    with Console(stderr=True).status("") as status:

        def show(job: "Job", text: str) -> None:
            if job not in seen:
                seen.append(job)
            case = job.request.cases[0]
            line = f"{len(seen)} of {count}: {job.target} at {case}: {text}"
            status.update(Text(line))

        yield show
