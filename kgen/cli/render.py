"""`kgen render`: the main job."""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.cli import EXIT_CODES
from kgen.cli._options import PATH, check_finite, report_of, templates_option
from kgen.cli._project import (
    out_of,
    project_here,
    refuse_vendored,
    specs_of,
    templates_of,
)
from kgen.tracked import untracked

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kgen.pipeline import Options, Outcome
    from kgen.plan.base import Plan
    from kgen.report import Report


def _directories(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


@click.command(epilog=EXIT_CODES)
@click.argument("specs", nargs=-1, type=PATH)
@click.option(
    "--out",
    metavar="DIR",
    type=PATH,
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
    "--tests-only",
    is_flag=True,
    help="Write the tests alone, beside modules that are what the specs yield.",
)
@click.option(
    "--tracked", is_flag=True, help="Exit 1 too if git does not know one of the files."
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(("text", "github")),
    default="text",
    show_default=True,
    help="With --check: text to read, or annotations and a job summary of GitHub "
    "Actions.",
)
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
    tests_only: bool,
    tracked: bool,
    output_format: str,
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

    if stdout and (check or diff):
        raise click.UsageError("--stdout goes with neither --check nor --diff.")
    if tests_only and (check or diff or stdout):
        raise click.UsageError(
            "--tests-only goes with neither --check, --diff nor --stdout."
        )
    if tracked and (diff or stdout):
        raise click.UsageError("--tracked goes with neither --diff nor --stdout.")
    if output_format == "github" and not check:
        raise click.UsageError("--format github goes with --check.")
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other.")
    with report_of(
        "kgen render --check", output_format, quiet=quiet, verbose=verbose
    ) as report:
        project = project_here()
        places, notes = specs_of(project, specs)
        out = out_of(project, out)
        options = Options(
            out=out,
            templates=templates_of(project, templates),
            verify=not no_verify,
            jobs=jobs or len(os.sched_getaffinity(0)),
            force=force,
            timeout=timeout,
            cache=not no_cache,
        )
        for note in notes:
            report.announce(note)
        plans = plan_all(places)
        if not stdout:
            refuse_vendored(out)
        if stdout:
            _print_module(plans, options, report)
        elif check or diff:
            _compare(
                plans, places, options, report, check=check, diff=diff, tracked=tracked
            )
        elif tests_only:
            _make_tests(plans, options, report, tracked=tracked)
        else:
            _make(plans, places, options, report, tracked=tracked)
    ctx.exit(report.exit_code)


def _make(
    plans: "tuple[Plan, ...]",
    places: tuple[Path, ...],
    options: "Options",
    report: "Report",
    *,
    tracked: bool,
) -> None:
    from kgen import pipeline
    from kgen.orphans import find_orphans

    paths: list[Path] = []
    with closing(pipeline.make(plans, options, report.track)) as outcomes:
        for outcome in outcomes:
            report.made(outcome)
            paths += _paths_of(outcome) if tracked else ()
    orphans = find_orphans(plans, places, options.out)
    report.orphaned(orphans, required=False)
    report.untracked(untracked(paths))
    report.sum_up_made()


def _make_tests(
    plans: "tuple[Plan, ...]", options: "Options", report: "Report", *, tracked: bool
) -> None:
    from kgen.tests_only import make_tests

    paths: list[Path] = []
    with closing(make_tests(plans, options, report.track)) as outcomes:
        for outcome in outcomes:
            report.made(outcome, tests_only=True)
            paths += _paths_of(outcome) if tracked else ()
    report.untracked(untracked(paths))
    report.sum_up_made("test")


def _paths_of(outcome: "Outcome") -> "tuple[Path, ...]":
    """Returns the files of a spec that are there, the module first."""
    return tuple(t.path for t in reversed(outcome.targets) if t.path.exists())


def _compare(
    plans: "tuple[Plan, ...]",
    places: tuple[Path, ...],
    options: "Options",
    report: "Report",
    *,
    check: bool,
    diff: bool,
    tracked: bool,
) -> None:
    from kgen import pipeline
    from kgen.diffs import diff as diff_of
    from kgen.orphans import find_orphans

    paths: list[Path] = []
    with closing(pipeline.compare(plans, options, report.track)) as outcomes:
        for outcome in outcomes:
            report.compared(outcome, required=check)
            paths += _paths_of(outcome) if tracked else ()
            if diff:
                for target in reversed(outcome.targets):
                    # As bytes: a module is UTF-8, whatever the terminal's locale.
                    text = diff_of(target).encode(errors="surrogateescape")
                    click.echo(text, nl=False)
    orphans = find_orphans(plans, places, options.out)
    report.orphaned(orphans, required=check)
    report.untracked(untracked(paths))
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
