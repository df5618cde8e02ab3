"""The result files of the benchmarks' page, and tables of what they say: see report.py."""

import contextlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from kgen.code import code_digest  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
GENERATED = ROOT / "generated"
AS_COMMITTED = "as committed"
EARLIER = "an earlier text"

# What is raised where a value has another shape than it is read by.
MISREAD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def exists(name):
    return (RESULTS / name).exists()


def read(name):
    return (RESULTS / name).read_text(encoding="utf-8")


@contextlib.contextmanager
def read_from(name):
    """Ends the script with a message if what is read from a file is not there."""
    try:
        yield
    except OSError as error:
        sys.exit(f"{RESULTS / name} cannot be read: {error}")
    except MISREAD as error:
        found = f"{type(error).__name__}: {error}"
        sys.exit(f"{RESULTS / name} is damaged: {found}\n  hint: git checkout it")


def load(name):
    """Returns what a file holds; ends the script with a message if it is damaged."""
    with read_from(name):
        return json.loads(read(name))


def told(name, tell):
    """Returns what `tell` makes of a file's value; a message ends the script as above."""
    with read_from(name):
        return tell(load(name))


def told_if_there(name, tell):
    """Returns what `tell` makes of a file's value; nothing if there is no such file."""
    return told(name, tell) if exists(name) else ""


def is_committed(name, outcome):
    """Whether a result is about the text that is committed now."""
    path = GENERATED / f"{name}.py"
    if not path.exists():
        return "no longer there"
    text = path.read_text(encoding="utf-8")
    same = outcome["source_digest"] == code_digest(text)
    return AS_COMMITTED if same else EARLIER


def marked(link, name, outcome):
    """Returns what names a kernel, with a mark if it was another text of it."""
    said = is_committed(name, outcome)
    return link if said == AS_COMMITTED else f"{link} ({said})"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
