"""Writes vendored kernels, their tests, copies of their specs and the lock file.

Every file is replaced as a whole, and the lock file last. Whenever a run is killed,
what is there is old or new, and the next run finishes it: whether a module is kgen's
own, its header tells, not the lock.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

from kgen import pipeline
from kgen.emit import tree
from kgen.emit.write import (
    Output,
    State,
    Target,
    locked,
    make_directory,
    write,
)
from kgen.report import Report
from kgen.vendor import lockfile
from kgen.vendor.compare import (
    Finding,
    finding_of,
    orphaned,
    places_of,
    strays,
    vanished,
)
from kgen.vendor.lockfile import Entry, Kind
from kgen.vendor.place import (
    Place,
    entry_of,
    entry_of_copy,
    inspect_copy,
    is_untouched,
    refuse_links,
)
from kgen.vendor.sources import Sources


@contextlib.contextmanager
def alone(directory: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Makes a directory and keeps other kgen processes from writing there.

    Raises:
      FileError: the directory cannot be made or opened.
    """
    real = make_directory(directory)
    with locked(real, waiting=waiting):
        for below in (real, real / "tests", real / "specs"):
            if below.is_dir():
                with locked(below) as nobody_else:
                    seconds = 0 if nobody_else else tree.STALE_SECONDS
                    tree.remove_stale_temporaries(below, seconds=seconds)
        yield


def update(
    place: Place,
    sources: Sources,
    options: pipeline.Options,
    report: Report,
    *,
    prune: bool,
) -> list[Finding]:
    """Makes a directory what specs yield, and tells what became of each file.

    Args:
      place: The directory; the caller keeps other processes out.
      sources: The specs.
      options: How to render; the files that kgen does not own are kept.
      report: Is told.
      prune: Whether files that no spec makes any more are removed.

    Returns:
      The files that are not what the specs yield, since someone else's work is in them.

    Raises:
      FileError: a file cannot be read or written.
    """
    expected = places_of(place, sources)
    refuse_links(place.path, (*expected, place.lock_path))
    tree.check_writable(place.path)
    kept: list[Finding] = []
    good, unmade = _modules(place, sources, options, report, kept)
    copies = _copies(place, sources, options, report, kept, without=unmade)
    good += [entry_of_copy(place, copy.output) for copy in copies]
    write([output for output in place.package_files() if not output.path.exists()])
    orphans = tuple(orphaned(place, sources, expected))
    removed = [f.path for f in orphans if _settled(place, f, prune, report)]
    if prune:
        lost = (*orphans, *strays(place, sources, expected))
        kept += [f for f in lost if f.path not in removed]
        for stray in lost[len(orphans) :]:
            _tell_kept(stray, report)
    gone = [*map(place.name_of, removed), *vanished(place, sources)]
    lock = place.locked_with(good, gone)
    text = lockfile.write_text(lock)
    changed = [copy.output for copy in copies if copy.state is not State.UNCHANGED]
    # Together, so that a spec is hardly ever newer than what the lock says of it.
    write([*changed, Output(path=place.lock_path, text=text)], force=True)
    for copy in copies:
        report.note(
            f"{'copied' if copy.output in changed else 'unchanged'} {copy.path}"
        )
    return kept


def _modules(
    place: Place,
    sources: Sources,
    options: pipeline.Options,
    report: Report,
    all_kept: list[Finding],
) -> tuple[list[Entry], set[str]]:
    """Makes the modules and their tests; adds those that are kept to `all_kept`.

    Returns:
      The lock's entries of those that are as they should be, and the specs of others.
    """
    good: list[Entry] = []
    unmade: set[str] = set()
    with contextlib.closing(
        pipeline.make(sources.plans, options, report.track)
    ) as made:
        for plan, outcome in zip(sources.plans, made, strict=True):
            if outcome.error is not None:
                report.made(outcome)
                unmade.add(plan.spec_path)
                continue
            pairs = list(zip((Kind.TEST, Kind.MODULE), outcome.targets, strict=True))
            kept = [pair for pair in pairs if _is_kept(pair[1], options)]
            done = [pair for pair in pairs if pair not in kept]
            if done:
                targets = tuple(target for _, target in done)
                report.made(dataclasses.replace(outcome, targets=targets))
            for kind, target in kept:
                entry = entry_of(place, target.output, kind)
                all_kept.append(finding_of(place, target, entry))
                _tell_kept(all_kept[-1], report)
            good += [entry_of(place, target.output, kind) for kind, target in done]
    return good, unmade


def _copies(
    place: Place,
    sources: Sources,
    options: pipeline.Options,
    report: Report,
    all_kept: list[Finding],
    *,
    without: set[str],
) -> list[Target]:
    """Returns the copies of specs that may be written, and tells of the others, which
    it adds to `all_kept`."""
    found = []
    for copy in sources.copies:
        if place.name_of(copy.path) in without:
            continue  # Its modules are those of the copy that is there.
        target = inspect_copy(place, copy)
        if _is_kept(target, options):
            all_kept.append(finding_of(place, target, entry_of_copy(place, copy)))
            _tell_kept(all_kept[-1], report)
        else:
            found.append(target)
    return found


def _is_kept(target: Target, options: pipeline.Options) -> bool:
    return not options.force and not target.state.owned


def _tell_kept(finding: Finding, report: Report) -> None:
    remark = f"{finding.remark}; kept"
    report.found(finding.state, finding.path, remark, required=True)


def _settled(place: Place, finding: Finding, prune: bool, report: Report) -> bool:
    """Removes an orphan if nobody touched it; returns whether it is gone."""
    assert finding.entry is not None
    if prune and is_untouched(place, finding.entry):
        _remove(finding.path)
        report.found("removed", finding.path, finding.remark, required=False)
        return True
    # With prune it stays different from what the specs say.
    remark = f"{finding.remark}; kept"
    report.found("orphaned", finding.path, remark, required=prune)
    return False


def _remove(path: Path) -> None:
    from kgen.emit.write import file_error

    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise file_error("remove", path, error) from error
