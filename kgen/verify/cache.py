"""Remembers passed verdicts in the user's cache directory.

A verdict stands for one text of a module, one request, one verifier and one JAX. What
the comments above a module's imports tell of its making does not count: a template that
renders the same code needs no new proof, nor does the same code in another place. Only
passed verdicts are kept. Whatever is wrong with the cache, verification still works: an
entry that cannot be read is a miss, one that cannot be written is not kept.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kgen.code import without_making
from kgen.verify.request import Request, Verdict

DIRECTORY_VARIABLE = "KGEN_CACHE_DIR"
DISTRIBUTIONS = ("jax", "jaxlib")


def directory() -> Path:
    """Returns where verdicts are kept; `KGEN_CACHE_DIR` names another cache."""
    if chosen := os.environ.get(DIRECTORY_VARIABLE):
        return Path(chosen) / "verdicts"
    # Needed by the default alone; machines with a GPU often lack it.
    import platformdirs

    return Path(platformdirs.user_cache_dir("kgen"), "verdicts")


def installed(distribution: str) -> str:
    """Returns the version of a distribution without importing it; empty if missing."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def verifier_digest() -> str:
    """Returns the digest of the verifier's own sources, limits of GPUs included."""
    digest = hashlib.sha256()
    for path in verifier_sources():
        name = path.relative_to(Path(__file__).parents[1])
        digest.update(str(name).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def verifier_sources() -> list[Path]:
    """Returns the files that decide on a verdict."""
    root = Path(__file__).parent
    limits = [root.parent / name for name in ("arch.py", "float8.py", "registers.py")]
    epilogue = sorted((root.parent / "epilogue").glob("*.py"))
    return [*sorted(root.rglob("*.py")), *epilogue, *limits]


def key(request: Request, levels: Sequence[str]) -> str:
    """Returns the name of the verdict on `request`."""
    beside: dict[str, str] = json.loads(request.beside)
    proven = dataclasses.replace(
        request,
        source=without_making(request.source),
        beside=json.dumps({n: without_making(text) for n, text in beside.items()}),
    )
    parts = {
        "request": proven.to_json(),
        "levels": list(levels),
        "verifier": verifier_digest(),
        "reference": _reference_digest(request.operation),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        **{name: installed(name) for name in DISTRIBUTIONS},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _reference_digest(operation: str) -> str:
    """Returns the digest of the package that computes what is right; empty if none."""
    if not operation:
        return ""
    from kgen import operations

    return operations.sources_digest(operations.get(operation))


def load(name: str) -> Verdict | None:
    """Returns the verdict of that name, if it is remembered."""
    try:
        text = (directory() / f"{name}.json").read_text(encoding="utf-8")
        entry = json.loads(text)
        verdict = Verdict.from_json(entry["verdict"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if entry.get("key") != name or not verdict.passed or not verdict.remembered:
        return None
    return verdict


def store(name: str, verdict: Verdict) -> None:
    """Remembers a passed verdict; does nothing where that is not possible."""
    if not verdict.passed:
        return
    remembered = Verdict(
        levels=verdict.levels, jax_version=verdict.jax_version, remembered=True
    )
    text = json.dumps({"key": name, "verdict": remembered.to_json()})
    with contextlib.suppress(OSError):
        _write(directory() / f"{name}.json", text)


def _write(path: Path, text: str) -> None:
    """Writes a file at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
