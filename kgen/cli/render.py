"""`kgen render`: the main job."""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.cli import EXIT_CODES
from kgen.cli._options import check_finite, templates_option
from kgen.cli._project import (
    out_of,
    project_here,
    refuse_vendored,
    specs_of,
    templates_of,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kgen.pipeline import Options
    from kgen.plan.base import Plan
    from kgen.report import Report


def _directories(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


@click.command(epilog=EXIT_CODES)
@click.argument("specs", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    show_default="the project file's `out`, or generated",
    shell_complete=_directories,
    help="Where modules are written; their tests go to DIR/tests.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; list the files that differ from what the specs yield.",
)
@templates_option
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
@click.option("--stdout", is_flag=True, help="Print the module; write nothing.")
@click.option(
    "--no-verify", is_flag=True, help="Skip verification; the modules then say so."
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    help="Specs that are worked on at once.  [default: one for each core]",
)
@click.option(
    "--force", is_flag=True, help="Overwrite files that were edited or are not kgen's."
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    default=300,
    show_default=True,
    help="Time that one verification level may take.",
)
@click.option(
    "--no-cache", is_flag=True, help="Verify again what is remembered as verified."
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Print a line for every file.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    specs: tuple[Path, ...],
    out: Path | None,
    templates: tuple[Path, ...],
    check: bool,
    diff: bool,
    stdout: bool,
    no_verify: bool,
    jobs: int | None,
    force: bool,
    timeout: float,
    no_cache: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Render, verify and write the kernels of SPECS: files, or directories of them.

    Without SPECS: those that the project file names (kgen.toml, or [tool.kgen] of
    pyproject.toml), or else those in specs/. A module is written with its test beside
    it, and only if it passed verification. Files that were edited, or that kgen did not
    write, are not overwritten. Files that were made from one of SPECS, or from a spec
    that was in one of these directories, and that no spec makes any more are told as
    orphaned; they are never removed. Specs outside of a directory called specs leave
    none, since their modules do not tell where they lie.
    """
    from kgen.pipeline import Options, plan_all
    from kgen.report import Report

    if stdout and (check or diff):
        raise click.UsageError("--stdout goes with neither --check nor --diff.")
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other.")
    project = project_here()
    places, notes = specs_of(project, specs)
    out = out_of(project, out)
    if not stdout:
        refuse_vendored(out)
    options = Options(
        out=out,
        templates=templates_of(project, templates),
        verify=not no_verify,
        jobs=jobs or len(os.sched_getaffinity(0)),
        force=force,
        timeout=timeout,
        cache=not no_cache,
    )
    with Report(quiet=quiet, verbose=verbose) as report:
        for note in notes:
            report.announce(note)
        plans = plan_all(places)
        if stdout:
            _print_module(plans, options, report)
        elif check or diff:
            _compare(plans, places, options, report, check=check, diff=diff)
        else:
            _make(plans, places, options, report)
    ctx.exit(report.exit_code)


def _make(
    plans: "tuple[Plan, ...]",
    places: tuple[Path, ...],
    options: "Options",
    report: "Report",
) -> None:
    from kgen import pipeline
    from kgen.orphans import find_orphans

    with closing(pipeline.make(plans, options, report.track)) as outcomes:
        for outcome in outcomes:
            report.made(outcome)
    orphans = find_orphans(plans, places, options.out)
    report.orphaned(orphans, required=False)
    report.sum_up_made()


def _compare(
    plans: "tuple[Plan, ...]",
    places: tuple[Path, ...],
    options: "Options",
    report: "Report",
    *,
    check: bool,
    diff: bool,
) -> None:
    from kgen import pipeline
    from kgen.diffs import diff as diff_of
    from kgen.orphans import find_orphans

    with closing(pipeline.compare(plans, options, report.track)) as outcomes:
        for outcome in outcomes:
            report.compared(outcome, required=check)
            if diff:
                for target in reversed(outcome.targets):
                    # As bytes: a module is UTF-8, whatever the terminal's locale.
                    text = diff_of(target).encode(errors="surrogateescape")
                    click.echo(text, nl=False)
    orphans = find_orphans(plans, places, options.out)
    report.orphaned(orphans, required=check)
    report.sum_up_compared()


def _print_module(
    plans: "tuple[Plan, ...]", options: "Options", report: "Report"
) -> None:
    from kgen import pipeline
    from kgen.errors import UsageError
    from kgen.report import name_levels

    if len(plans) != 1:
        raise UsageError(
            f"--stdout prints one module, and the specs describe {len(plans)}: "
            f"{', '.join(plan.name for plan in plans)}\n"
            "  hint: name a spec file without a [matrix], or use --out"
        )
    text, verdict = pipeline.make_text(plans[0], options)
    report.note(f"rendered {plans[0].name} ({name_levels(verdict)})")
    click.echo(text.encode(), nl=False)
