"""Verdicts as text, as JSON and as JUnit XML."""

import dataclasses
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from kgen import __version__
from kgen.errors import KgenError
from kgen.verify.request import FAILED, NOT_RUN, PASSED, LevelResult, Verdict

INDENT = "    "
_NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one target.

    Attributes:
      label: What the target is called.
      verdict: What verification found; None if it could not begin.
      error: Why it could not.
      path: The target's own file: a spec, a module, or the file of a function.
    """

    label: str
    verdict: Verdict | None = None
    error: KgenError | None = None
    path: str | None = None

    @property
    def passed(self) -> bool:
        return self.verdict is not None and self.verdict.passed


def text_of(result: Result) -> str:
    """Returns a result as people read it."""
    if result.verdict is None:
        return f"not verified  {result.label}" + _indented(str(result.error))
    word = "passed" if result.passed else "FAILED"
    levels = [each for each in result.verdict.levels if _is_told(each)]
    told = ", ".join(map(_short, levels))
    if result.verdict.remembered:
        told += ": remembered"
    text = f"{word}  {result.label}  {told}"
    for level in result.verdict.levels:
        text += "".join(_indented(f"note: {note}") for note in level.notes)
        if level.status == FAILED or (level.detail and not _follows(level)):
            head = "" if level.status == FAILED else f"{level.level}: "
            text += _indented(head + level.detail)
    return text


def summary(results: Sequence[Result]) -> str:
    """Returns how many passed and how many did not."""
    passed = sum(result.passed for result in results)
    failed = len(results) - passed
    verified = f"{passed} verified" if passed else "nothing verified"
    return f"{verified}, {failed} failed." if failed else f"{verified}."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """What became of one target, as JSON has it.

    Attributes:
      target: What it is called.
      passed: Whether every level passed.
      jax: Version of JAX; empty if the target could not be verified.
      remembered: Whether the verdict is an earlier one.
      error: Why it could not be verified; null if it could.
      levels: What each level found.
    """

    target: str
    passed: bool
    jax: str
    remembered: bool
    error: str | None
    levels: tuple[LevelResult, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """The JSON that `kgen verify --format json` prints.

    Attributes:
      kgen: Version of kgen.
      passed: Whether every target passed.
      results: The targets, in the order in which they were asked for.
    """

    kgen: str
    passed: bool
    results: tuple[Entry, ...]


def json_of(results: Sequence[Result]) -> str:
    """Returns results as JSON, as `kgen schema verdicts` describes it."""
    document = Document(
        kgen=__version__,
        passed=bool(results) and all(result.passed for result in results),
        results=tuple(map(_entry, results)),
    )
    value = dataclasses.asdict(document)
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def schema_text() -> str:
    """Returns the JSON Schema of `json_of`."""
    import pydantic

    schema = pydantic.TypeAdapter(Document).json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**head, **schema}, indent=2) + "\n"


def junit_of(results: Sequence[Result]) -> str:
    """Returns results as JUnit XML: a suite per target, a case per level.

    A level that could say nothing is an error: CI must not take it for a pass. Only what
    comes after a failed level is skipped.
    """
    root = ElementTree.Element("testsuites", name="kgen verify")
    for result in results:
        root.append(_suite(result))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in root)))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _indented(text: str) -> str:
    return "\n" + textwrap.indent(text, INDENT)


def _short(level: LevelResult) -> str:
    if level.status == NOT_RUN:
        return f"{level.level} not run"
    word = "" if level.status == PASSED else " failed after"
    return f"{level.level}{word} {level.seconds:.1f} s"


def _is_told(level: LevelResult) -> bool:
    """Whether a level is listed: that a module can be imported goes without saying."""
    return level.level != "import" or level.status != PASSED


def _follows(level: LevelResult) -> bool:
    """Whether a level was not run since another one failed."""
    return level.status == NOT_RUN and level.detail.endswith(" failed")


def _entry(result: Result) -> Entry:
    verdict = result.verdict
    return Entry(
        target=result.label,
        passed=result.passed,
        jax=verdict.jax_version if verdict else "",
        remembered=verdict is not None and verdict.remembered,
        error=None if result.error is None else str(result.error),
        levels=verdict.levels if verdict else (),
    )


def _suite(result: Result) -> ElementTree.Element:
    cases = list(_cases(result))
    suite = ElementTree.Element(
        "testsuite",
        name=_printable(result.label),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=f"{sum(float(case.get('time', 0)) for case in cases):.3f}",
    )
    suite.extend(cases)
    return suite


def _cases(result: Result) -> Iterator[ElementTree.Element]:
    if result.verdict is None:
        yield _case(result.label, "kgen", 0.0, "error", str(result.error))
        return
    for level in result.verdict.levels:
        kind = {FAILED: "failure", NOT_RUN: "error", PASSED: ""}[level.status]
        if _follows(level):
            kind = "skipped"
        case = _case(result.label, level.level, level.seconds, kind, level.detail)
        if level.notes:
            out = ElementTree.SubElement(case, "system-out")
            out.text = _printable("\n".join(level.notes))
        yield case


def _case(
    label: str, name: str, seconds: float, kind: str, detail: str
) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", classname=_printable(label), name=name, time=f"{seconds:.3f}"
    )
    if kind:
        first = _printable(detail.partition("\n")[0])
        told = ElementTree.SubElement(case, kind, message=first)
        told.text = _printable(detail)
    return case


def _printable(text: str) -> str:
    """Returns `text` without what XML 1.0 cannot hold."""
    return _NOT_IN_XML.sub("\ufffd", text)
