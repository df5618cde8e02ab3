"""`kgen verify`: the proof of kernels, whoever wrote them."""

import functools
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgen.cli import EXIT_CODES
from kgen.cli._options import check_finite, report_of, templates_option
from kgen.cli._project import out_of, project_here, specs_of, templates_of

if TYPE_CHECKING:
    from kgen.project import Project
    from kgen.report import Report
    from kgen.targets.asked import Target
    from kgen.verdicts import Result

LEVELS = ("static", "lower", "simulate", "gpu")
TIMEOUT = 120.0


@click.command(epilog=EXIT_CODES)
@click.argument("targets", nargs=-1, metavar="[SPECS | MODULES | FILE.py:FUNCTION]...")
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="simulate",
    show_default=True,
    help="The last level to run; those before it run, too.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="SIZES",
    help="Sizes to verify at, instead of the target's own: M,N,K of a matmul, or a "
    'function\'s operands such as "float16[256,512] float16[512,128]". May be repeated.',
)
@click.option(
    "--dtype",
    default="float16",
    show_default=True,
    help="Elements of A and B, for a function that is verified as a matmul.",
)
@click.option(
    "--reference",
    metavar="NAME",
    help="The file's function that computes what FUNCTION should.  [default: "
    "`reference`, if the file has it]",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(("text", "json", "junit", "github")),
    default="text",
    show_default=True,
    help="Text to read, JSON, JUnit XML for CI, or annotations and a job summary of "
    "GitHub Actions.",
)
@templates_option
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    help="Targets that are verified at once.  [default: one for each core]",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    default=TIMEOUT,
    show_default=True,
    help="Time that one level of one target may take.",
)
@click.option(
    "--no-cache", is_flag=True, help="Verify again what is remembered as verified."
)
@click.option("-q", "--quiet", is_flag=True, help="Tell only what did not pass.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    targets: tuple[str, ...],
    level: str,
    shapes: tuple[str, ...],
    dtype: str,
    reference: str | None,
    templates: tuple[Path, ...],
    output_format: str,
    jobs: int | None,
    timeout: float,
    no_cache: bool,
    quiet: bool,
) -> None:
    """Prove kernels on a CPU: legality, lowering, numerics, races and deadlocks.

    A target is a spec or a directory of specs, whose modules are rendered anew and not
    written; a rendered module, edited by hand or not, or a directory of modules; or
    FILE.py:FUNCTION for any function that runs Pallas Mosaic GPU kernels, with --shape.
    Without targets: the specs that the project file names, or else those in specs/.

    \b
    kgen verify generated/fp16_128x128.py
    kgen verify kernels/mine.py:matmul --shape 256,512,1024 --dtype bfloat16
    kgen verify kernels/mine.py:softmax --shape "float32[128,1024]"

    Each target runs in a process of its own with a time limit. A level that can say
    nothing about a kernel tells why, and counts as failed.
    """
    from kgen import verdicts
    from kgen.targets import find_targets
    from kgen.targets.asked import Asked
    from kgen.workers import in_threads

    jobs = jobs or len(os.sched_getaffinity(0))
    run = functools.partial(
        _verify,
        levels=LEVELS[: LEVELS.index(level) + 1],
        timeout=timeout,
        cache=not no_cache,
    )
    results = []
    with report_of("kgen verify", output_format, quiet=quiet) as report:
        project = project_here()
        asked = Asked(
            shapes=shapes,
            dtype=dtype,
            reference=reference,
            templates=templates_of(project, templates),
            jobs=jobs,
            out=out_of(project, None),
        )
        names = _names(project, targets, report)
        found = list(find_targets(names, asked, report.track))
        done = in_threads(run, found, jobs=jobs, track=report.track, doing="verifying")
        with closing(done):
            for result in done:
                results.append(result)
                told = output_format == "text" and not (quiet and result.passed)
                report.verified(result, verdicts.text_of(result) if told else "")
    writers = {"json": verdicts.json_of, "junit": verdicts.junit_of}
    if output_format in writers:
        click.echo(writers[output_format](results).encode(), nl=False)
    elif not quiet:
        click.echo(verdicts.summary(results))
    ctx.exit(report.exit_code)


def _verify(
    target: "Target", *, levels: tuple[str, ...], timeout: float, cache: bool
) -> "Result":
    from kgen.verdicts import Result
    from kgen.verify import verify

    if target.request is None:
        return Result(label=target.label, error=target.error, path=target.path)
    verdict = verify(target.request, levels=levels, timeout=timeout, cache=cache)
    return Result(label=target.label, verdict=verdict, path=target.path)


def _names(
    project: "Project | None", targets: tuple[str, ...], report: "Report"
) -> list[str]:
    """Returns what is to be verified; specs that are missing here may be shipped."""
    names: list[str] = []
    for given in [[Path(target)] for target in targets] or [[]]:
        places, notes = specs_of(project, given)
        for note in notes:
            report.announce(note)
        names += map(str, places)
    return names
