"""`kgen vendor`: kernels in another repository, and the check that runs there."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.cli import EXIT_CODES
from kgen.cli._options import PATH, check_finite, report_of, templates_option
from kgen.cli._project import DEFAULT_SPECS, project_here, specs_of, templates_of

if TYPE_CHECKING:
    from kgen.pipeline import Options
    from kgen.project import Project
    from kgen.report import Report
    from kgen.vendor.place import Place
    from kgen.vendor.sources import Sources


@click.command(epilog=EXIT_CODES)
@click.argument("dest", type=PATH)
@click.argument("specs", nargs=-1, type=PATH)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; list what is stale, edited, missing or orphaned, and why.",
)
@click.option(
    "--update",
    is_flag=True,
    help="Make DEST what the specs yield: also remove what no spec makes any more.",
)
@click.option(
    "--force", is_flag=True, help="Overwrite files that were edited or are not kgen's."
)
@templates_option
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
    dest: Path,
    specs: tuple[Path, ...],
    check: bool,
    update: bool,
    force: bool,
    templates: tuple[Path, ...],
    output_format: str,
    no_verify: bool,
    jobs: int | None,
    timeout: float,
    no_cache: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Keep the kernels of SPECS in DEST, a directory of another repository.

    Modules are written to DEST and their standalone tests to DEST/tests, verified as
    with `kgen render`, and kgen.lock tells what each was made from. [vendor] of the
    project file that DEST belongs to sets a package, relative imports, a header, and
    whether the specs are copied to DEST/specs.

    Without SPECS: those that the project file of the current directory names, or else
    those in specs/. With --check and --update, the copies in DEST/specs come first. Of
    files made from other specs nothing is said. Where --check finds no specs at all, it
    compares the files with kgen.lock.

    Files that were edited, or that kgen did not write, are kept and told. --force
    overwrites them, but removes none. --check needs neither JAX nor time, and prints
    what was edited.

    \b
    kgen vendor ../mylib/src/mylib/kernels specs/fp16_128x128.toml
    kgen vendor --check src/mylib/kernels
    kgen vendor --update src/mylib/kernels
    """
    from kgen.pipeline import Options
    from kgen.vendor.hints import update_command

    if check and (update or force):
        raise click.UsageError("--check goes with neither --update nor --force.")
    if output_format == "github" and not check:
        raise click.UsageError("--format github goes with --check.")
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other.")
    repair = update_command(dest, specs, templates, verify=not no_verify)
    with report_of(
        f"kgen vendor --check {dest}", output_format, quiet=quiet, verbose=verbose
    ) as report:
        project = project_here()
        options = Options(
            out=dest,
            templates=templates_of(project, templates),
            verify=not no_verify,
            jobs=jobs or len(os.sched_getaffinity(0)),
            force=force,
            timeout=timeout,
            cache=not no_cache,
            keep=True,
        )
        if check:
            _check(project, specs, options, report, repair)
        else:
            _write(project, specs, options, report, repair, prune=update)
    ctx.exit(report.exit_code)


def _write(
    project: "Project | None",
    given: tuple[Path, ...],
    options: "Options",
    report: "Report",
    repair: str,
    *,
    prune: bool,
) -> None:
    from kgen.project import find_project
    from kgen.vendor.hints import after_update
    from kgen.vendor.place import open_place, refuse_rendered
    from kgen.vendor.update import alone, update

    place = open_place(options.out)
    refuse_rendered(place, (project, find_project(options.out)))
    if not options.out.exists():
        # Tells what is wrong before a directory is made.
        _sources(place, project, given, report, copies_first=prune)
    say = f"waiting for another kgen that writes to {options.out}"
    with alone(options.out, lambda: report.announce(say)):
        place = open_place(options.out)
        sources = _sources(place, project, given, report, copies_first=prune)
        kept = update(place, sources, _placed(options, place), report, prune=prune)
    report.sum_up_made()
    for hint in after_update(kept, repair):
        report.announce(f"  hint: {hint}")


def _check(
    project: "Project | None",
    given: tuple[Path, ...],
    options: "Options",
    report: "Report",
    repair: str,
) -> None:
    from kgen.errors import KgenError
    from kgen.vendor.compare import Finding, compare, compare_with_lock
    from kgen.vendor.hints import after_check
    from kgen.vendor.place import open_place

    place = open_place(options.out)
    if _has_specs(place, project, given) or place.lock is None:
        sources = _sources(place, project, given, report, copies_first=True)
        findings = compare(place, sources, _placed(options, place), report.track)
    else:
        report.announce(
            "There are no specs here: files are compared with kgen.lock alone."
        )
        findings = compare_with_lock(place)
        repair = f"with the specs: {repair} SPECS"
    found: list[Finding] = []
    for finding in findings:
        if isinstance(finding, KgenError):
            report.not_compared(finding)
            continue
        found.append(finding)
        report.found(
            finding.state,
            finding.path,
            finding.remark,
            required=True,
            line=finding.line,
        )
        report.edits(finding.path, finding.edits)
    report.sum_up_compared()
    for hint in after_check(found, repair):
        report.announce(f"  hint: {hint}")


def _has_specs(
    place: "Place", project: "Project | None", given: tuple[Path, ...]
) -> bool:
    return bool(given) or bool(_copies_of(place)) or _are_specs_here(project)


def _are_specs_here(project: "Project | None") -> bool:
    """Whether the current directory has specs, or a project file that names some.

    A project file may be there for `[vendor]` alone.
    """
    if project is None:
        return DEFAULT_SPECS.exists()
    return project.names_specs or any(place.exists() for place in project.specs)


def _copies_of(place: "Place") -> tuple[Path, ...]:
    """Returns the place of copied specs, if there are any."""
    from kgen.vendor.lockfile import Kind

    copies = place.path / "specs"
    if place.lock is None:  # It may be lost, and the copies are not.
        are_there = any(copies.rglob("*.toml"))
    else:
        are_there = bool(place.lock.of_kind(Kind.SPEC))
    return (copies,) if place.copies and are_there else ()


def _sources(
    place: "Place",
    project: "Project | None",
    given: tuple[Path, ...],
    report: "Report",
    *,
    copies_first: bool,
) -> "Sources":
    from kgen.errors import UsageError
    from kgen.vendor.sources import load

    places = given or (_copies_of(place) if copies_first else ())
    if not places and not _are_specs_here(project):
        raise UsageError(
            f"there are no specs here for {place.path}\n"
            "  hint: name them: kgen vendor DEST SPECS; or let a kgen.toml do it"
        )
    # The shipped ones only where nothing can be removed because of them.
    if not places or not copies_first:
        places, notes = specs_of(project, places)
        for note in notes:
            report.announce(note)
    return load(place.path, places, copied=place.copies)


def _placed(options: "Options", place: "Place") -> "Options":
    import dataclasses

    return dataclasses.replace(options, placement=place.placement)
