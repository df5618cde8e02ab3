"""What to do about the files that are not what their specs yield."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from kgen.vendor.compare import ORPHANED, UNCHANGED, Finding


def update_command(
    dest: Path, specs: Sequence[Path], templates: Sequence[Path], *, verify: bool
) -> str:
    """Returns the command that repairs what a check with the same arguments found."""
    command = ["kgen", "vendor", "--update", str(dest), *map(str, specs)]
    for directory in templates:
        command += ["--templates", str(directory)]
    return shlex.join([*command, *([] if verify else ["--no-verify"])])


def after_check(findings: Sequence[Finding], command: str) -> Iterator[str]:
    """Yields what to do about findings of a check, with the command that repairs."""
    found = [finding for finding in findings if finding.state != UNCHANGED]
    kept = _kept(found)
    if kept:
        yield f"{command}; it keeps {kept} files, and overwrites them with --force"
    elif any(finding.owned for finding in found):
        yield command
    yield from _about_orphans(found)


def after_update(kept: Sequence[Finding], command: str) -> Iterator[str]:
    """Yields what to do about the files that an update kept."""
    if words := _kept(kept):
        command = command.replace("--update", "--update --force", 1)
        yield f"to overwrite {words} files: {command}"
    yield from _about_orphans(kept)


def _kept(findings: Sequence[Finding]) -> str:
    states = dict.fromkeys(
        finding.state
        for finding in findings
        if not finding.owned and finding.state != ORPHANED
    )
    return " and ".join(states)


def _about_orphans(findings: Sequence[Finding]) -> Iterator[str]:
    if any(each.state == ORPHANED and not each.owned for each in findings):
        yield "orphans that were edited, or are not in kgen.lock, are yours to delete"
