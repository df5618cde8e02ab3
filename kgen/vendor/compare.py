"""What differs between a directory of vendored kernels and what its specs yield."""

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kgen import pipeline
from kgen.diffs import edits, first_difference
from kgen.emit import provenance, tree
from kgen.emit.write import State, Target, read_text
from kgen.errors import KgenError
from kgen.vendor import lockfile
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
from kgen.workers import Track

UNCHANGED = "unchanged"
ORPHANED = "orphaned"
_EDITED = "it was edited since kgen wrote it"
_DELETED = "it was deleted"
_SETTINGS = "the settings in [vendor] changed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """How one file compares.

    Attributes:
      state: `stale`, `edited`, `missing`, `foreign`, `orphaned` or `unchanged`.
      path: The file.
      remark: Why, if that can be told.
      edits: What someone changed in it, as a unified diff; else empty.
      line: The first line that differs, if that is known.
      entry: What the lock should say of it; None if kgen does not keep it.
      owned: Whether an update may set it right: no work of someone else's is lost.
    """

    state: str
    path: Path
    remark: str | None = None
    edits: str = ""
    line: int | None = None
    entry: Entry | None = None
    owned: bool = True


def compare(
    place: Place, sources: Sources, options: pipeline.Options, track: Track
) -> Iterator[Finding | KgenError]:
    """Yields how every file of a directory compares with what specs yield, or why that
    cannot be told. Nothing is written nor verified."""
    found, same = [], True
    for finding in _files(place, sources, options, track):
        yield finding
        if isinstance(finding, KgenError):
            same = False
        else:
            found.append(finding)
    expected = places_of(place, sources)
    found += orphaned(place, sources, expected)
    yield from (finding for finding in found if finding.state == ORPHANED)
    yield from strays(place, sources, expected)
    if place.lock is None:
        yield Finding(state="missing", path=place.lock_path)
    elif same and all(finding.state == UNCHANGED for finding in found):
        good = [f.entry for f in found if f.entry is not None]
        yield from _lock(place, good, vanished(place, sources))


def places_of(place: Place, sources: Sources) -> set[Path]:
    """Returns the files that specs make."""
    found = {copy.path for copy in sources.copies}
    for plan in sources.plans:
        found.add(tree.output_of_module(place.path, plan.name, "").path)
        found.add(tree.output_of_test(place.path, plan.name, "").path)
    return found


def compare_with_lock(place: Place) -> Iterator[Finding]:
    """Yields how every file compares with the lock: all that can be told without specs."""
    if place.lock is not None and place.lock.vendor != place.settings:
        yield Finding(state="stale", path=place.lock_path, remark=_SETTINGS)
    for entry in place.entries:
        path = place.path / entry.path
        if not path.exists():
            yield Finding(state="missing", path=path, remark=_DELETED)
            continue
        text = read_text(path)
        same = text is not None and lockfile.digest_of(text) == entry.sha256
        state = UNCHANGED if same else "edited"
        remark = None if same else "it is not what kgen.lock says"
        yield Finding(state=state, path=path, remark=remark, owned=same)


def orphaned(
    place: Place, sources: Sources, expected: "set[Path]"
) -> Iterator[Finding]:
    """Yields the files of the lock that no spec makes any more and that are there."""
    specs = {plan.spec_path for plan in sources.plans}
    specs |= {place.name_of(copy.path) for copy in sources.copies}
    for entry in place.entries:
        path = place.path / entry.path
        if path in expected or not sources.speak_of(entry.spec) or not path.exists():
            continue
        if entry.kind is Kind.SPEC:
            remark = "no spec is copied there"
        elif entry.spec in specs:
            remark = f"{entry.spec} does not make it any more"
        else:
            remark = f"its spec {entry.spec} is gone"
        if not (untouched := is_untouched(place, entry)):
            remark += f"; {_EDITED}"
        yield Finding(
            state=ORPHANED, path=path, remark=remark, entry=entry, owned=untouched
        )


def vanished(place: Place, sources: Sources) -> list[str]:
    """Returns the paths in the lock where there is no file, of specs spoken of."""
    return [
        entry.path
        for entry in place.entries
        if sources.speak_of(entry.spec) and not (place.path / entry.path).exists()
    ]


def finding_of(place: Place, target: Target, entry: Entry) -> Finding:
    """Returns how a file compares, in words."""
    remark: str | None = None
    state, changed = str(target.state), ""
    if target.state is State.DIFFERS:
        state = "stale"
        remark = _why_stale(place, target, entry.kind)
    elif target.state is State.EDITED:
        remark = _EDITED
        others = provenance.explain_difference(target.old or "", target.output.text)
        if others is not None:
            remark += f"; apart from that, {others}"
        changed = edits(target, also=others)
    elif target.state is State.FOREIGN:
        remark = "it was not written by kgen"
    elif target.state is State.MISSING:
        remark = _why_missing(place, entry)
    return Finding(
        state=state,
        path=target.path,
        remark=remark,
        edits=changed,
        line=first_difference(target),
        entry=entry,
        owned=target.state.owned,
    )


def _files(
    place: Place, sources: Sources, options: pipeline.Options, track: Track
) -> Iterator[Finding | KgenError]:
    with closing(pipeline.compare(sources.plans, options, track)) as outcomes:
        for outcome in outcomes:
            if outcome.error is not None:
                yield outcome.error
            refuse_links(place.path, (target.path for target in outcome.targets))
            for kind, target in reversed(
                list(zip((Kind.TEST, Kind.MODULE), outcome.targets, strict=False))
            ):
                yield finding_of(place, target, entry_of(place, target.output, kind))
    refuse_links(place.path, (copy.path for copy in sources.copies))
    for copy in sources.copies:
        target = inspect_copy(place, copy)
        yield finding_of(place, target, entry_of_copy(place, copy))
    for output in place.package_files():
        state = UNCHANGED if output.path.exists() else "missing"
        remark = None if state == UNCHANGED else "relative imports need it"
        yield Finding(state=state, path=output.path, remark=remark)


def _why_missing(place: Place, entry: Entry) -> str | None:
    if place.lock is None:
        return None  # Nothing tells what was here before.
    if place.lock.entry(entry.path) is not None:
        return _DELETED
    if any(other.spec == entry.spec for other in place.entries):
        return f"{entry.spec} did not make it before"
    return f"its spec {entry.spec} is new"


def _why_stale(place: Place, target: Target, kind: Kind) -> str:
    if kind is Kind.SPEC:
        return "the spec that it is a copy of changed"
    reasons = [] if target.reason is None else [target.reason]
    then, now = (provenance.read(t or "") for t in (target.old, target.output.text))
    if then is not None and now is not None and then.spec != now.spec:
        reasons.append(f"its spec was {then.spec}, and is {now.spec}")
    if place.lock is not None and place.lock.vendor != place.settings:
        reasons.append(_SETTINGS)
    return ", ".join(reasons) or "kgen writes it otherwise now"


def strays(place: Place, sources: Sources, expected: "set[Path]") -> Iterator[Finding]:
    """Yields kgen's files that neither the lock nor the specs know."""
    if "" not in sources.within:
        return
    known = expected | {place.path / entry.path for entry in place.entries}
    for orphan in tree.find_orphans(place.path, known, ["."]):
        remark = "neither a spec nor kgen.lock knows it"
        if orphan.edited:
            remark += f"; {_EDITED}"
        yield Finding(state=ORPHANED, path=orphan.path, remark=remark, owned=False)


def _lock(place: Place, good: list[Entry], gone: list[str]) -> Iterator[Finding]:
    """Yields whether the lock says what is there, all files being as they should be."""
    assert place.lock is not None
    meant = place.locked_with(good, gone)
    if meant == place.lock:
        yield Finding(state=UNCHANGED, path=place.lock_path)
        return
    reason = "it does not say what is there"
    if place.lock.kgen != meant.kgen:
        reason = f"written by kgen {place.lock.kgen}"
    elif place.lock.vendor != meant.vendor:
        reason = _SETTINGS
    yield Finding(state="stale", path=place.lock_path, remark=reason)
