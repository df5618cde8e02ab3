"""`kgen tune`: the fastest legal kernel of a spec at one shape, found on a GPU."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.cli import EXIT_CODES
from kgen.cli._options import PATH, check_finite, templates_option
from kgen.cli._output import print_tables, print_text
from kgen.cli._project import project_here, templates_of

if TYPE_CHECKING:
    from kgen.tune.session import Options, Subject

BUDGET = 600.0
TIMEOUT = 60.0
# Measuring takes a second or two; while it hangs, nothing else is measured.
MEASURING_SHARE = 1 / 3


@click.command(epilog=EXIT_CODES)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="SPEC | RESULTS...",
    type=PATH,
)
@click.option(
    "--shape",
    metavar="M,N,K",
    help="The size to be fast at; 64xM,N,K is a batch of 64.",
)
@click.option(
    "--results",
    metavar="FILE",
    type=PATH,
    help="The file of results, which a later run goes on from.  [default: "
    "NAME.tune.jsonl here]",
)
@click.option(
    "--budget",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    default=BUDGET,
    show_default=True,
    help="Time for all of it.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Measure only so many of the candidates that should be fastest.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    help="Candidates that are compiled at once.  [default: one for each core but one]",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    default=TIMEOUT,
    show_default=True,
    help="Time that one candidate may take to be compiled; a third of it to be "
    "checked and measured.",
)
@templates_option
@click.option("--write", is_flag=True, help="Put the winner into the spec.")
@click.option(
    "--report",
    metavar="FILE.html",
    type=PATH,
    help="Write a page of all that was tried.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Measure nothing: tell what would be tried, and why. Needs no GPU.",
)
@click.option(
    "--merge",
    is_flag=True,
    help="Write the results of several files into the new file of -o.",
)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=PATH,
    help="The file of --merge.",
)
def command(
    *,
    files: tuple[Path, ...],
    shape: str | None,
    results: Path | None,
    budget: float,
    limit: int | None,
    jobs: int | None,
    timeout: float,
    templates: tuple[Path, ...],
    write: bool,
    report: Path | None,
    dry_run: bool,
    merge: bool,
    out: Path | None,
) -> None:
    """Find the fastest kernel that SPEC can be at one shape, on the GPU of this machine.

    The values of the spec's [tune] table are tried, or those of a default space that
    suits the shape. What is illegal is left out; a model of the GPU orders the rest.
    Each candidate is compiled in a process with a time limit, checked, and measured in
    turns with XLA.

    \b
    kgen tune specs/gemm.toml --shape 4096,4096,4096 --write
    kgen tune specs/heads.toml --shape 64x512,512,512 --dry-run
    kgen tune --merge monday.jsonl tuesday.jsonl -o both.jsonl

    A run that is interrupted goes on where it ended.
    """
    from kgen.errors import UsageError

    if merge:
        if shape is not None or write or report is not None or dry_run:
            raise UsageError(
                "--merge puts files together, and tunes nothing\n"
                "  allowed: --merge FILES -o FILE"
            )
        _merge(files, out)
        return
    if dry_run and (write or report is not None):
        raise UsageError(
            "--dry-run measures nothing that --write or --report could take"
        )
    if out is not None:
        raise UsageError("-o goes with --merge alone")
    if len(files) > 1:
        raise UsageError(
            "one spec is tuned at a time\n  hint: --merge takes several files of results"
        )
    if report is not None and report.suffix not in (".html", ".htm"):
        raise UsageError(f"--report {report} does not end in .html")
    from kgen.tune import page, session

    if report is not None:
        page.check_place(report)
    started = session.now()
    batch, sizes = _sizes(shape)
    subject = session.read(files[0], sizes, batch)
    if dry_run:
        _tell_space(subject, limit)
        return
    from kgen.tune.tasks import Limits

    options = session.Options(
        results=results or Path(f"{subject.source.name}.tune.jsonl"),
        budget=budget,
        jobs=jobs or max(1, len(os.sched_getaffinity(0)) - 1),
        limit=limit,
        limits=Limits(prepare=timeout, measure=timeout * MEASURING_SHARE),
        templates=templates_of(project_here(), templates),
    )
    _tune(subject, options, started, write=write, page=report)


def _sizes(text: str | None) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """Returns the leading dimensions, and m, n and k."""
    from kgen.errors import UsageError
    from kgen.shapes import SIZES, read_batch, refuse_nothing

    if text is None:
        raise UsageError(f"--shape is missing\n  allowed: {SIZES}")
    batch, sizes = read_batch(text)
    refuse_nothing(text, (*batch, *sizes))
    return batch, sizes


def _merge(files: tuple[Path, ...], out: Path | None) -> None:
    from kgen.errors import UsageError
    from kgen.streams import tell
    from kgen.tune.store import merge

    if out is None:
        raise UsageError("--merge needs -o FILE: the new file of results")
    count, left_out = merge(files, out)
    for line in left_out:
        tell(f"{line}; left out")
    print_text(f"{count} results in {out}.\n")


def _tell_space(subject: "Subject", limit: int | None) -> None:
    from kgen.tune import told

    print_tables([told.pruned(subject), told.predicted(subject, limit or told.SHOWN)])


def _tune(
    subject: "Subject",
    options: "Options",
    started: float,
    *,
    write: bool,
    page: Path | None,
) -> None:
    from kgen.errors import VerificationError
    from kgen.tune import rewrite, session, told
    from kgen.tune.page import page_text, write_page
    from kgen.tune.progress import make_progress

    key, found = session.tune_subject(subject, options, make_progress(), started)
    print_tables(told.results(subject, found))
    if page is not None:
        write_page(page, page_text(subject, key, found))
        print_text(f"The report is in {page}.\n")
    if found.winner is None:
        raise VerificationError(
            "no candidate could be measured\n"
            f"  hint: {options.results} tells why of each"
        )
    if write:
        values = dict(found.winner.values)
        changed = rewrite.put(subject.path, subject.content, values)
        state = "is in" if changed else "was already in"
        print_text(f"The winner {state} {subject.path}.\n")
