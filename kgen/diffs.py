"""Unified diffs between files and the texts that belong there."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgen.emit.write import Target


def diff(target: "Target") -> str:
    """Returns what would change in the place of `target`, as a unified diff."""
    if target.state == "unchanged":
        return ""
    if target.old is None and target.state != "missing":
        return f"{target.path} is not UTF-8 text\n"
    path = str(target.path)
    old_path = "/dev/null" if target.old is None else path
    return _unified(target.old or "", target.output.text, old_path, path)


def edits(target: "Target", *, also: str | None = None) -> str:
    """Returns what someone changed in the place of `target`, as a unified diff.

    Args:
      target: The file, and the text that belongs there.
      also: What else has changed since; the diff shows that, too.
    """
    if target.old is None:
        return f"{target.path} is not UTF-8 text\n"
    path = str(target.path)
    since = f" now ({also})" if also else ""
    name = f"{path} as kgen writes it{since}"
    return _unified(target.output.text, target.old, name, path)


def first_difference(target: "Target") -> int | None:
    """Returns the first line of a file that is not what its spec yields."""
    if target.old is None:
        return None
    old = target.old.replace("\r\n", "\n").split("\n")
    new = target.output.text.split("\n")
    pairs = enumerate(zip(old, new, strict=False), start=1)
    # The provenance comment has digests, which differ whatever else does.
    differing = [line for line, (a, b) in pairs if a != b and not a.startswith("# ")]
    return next(iter(differing), None)


def _unified(old: str, new: str, old_path: str, new_path: str) -> str:
    import difflib

    # Line ends of a checkout are no change.
    old, new = (text.replace("\r\n", "\n") for text in (old, new))
    lines = difflib.unified_diff(_lines(old), _lines(new), old_path, new_path)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )


def _lines(text: str) -> list[str]:
    # Not splitlines(): a form feed or U+2028 ends no line of a file.
    return [f"{line}\n" for line in text.split("\n")[:-1]] + (
        [last] if (last := text.rpartition("\n")[2]) else []
    )
