"""Verdicts as text, JSON and JUnit XML."""

import json
from pathlib import Path

import jsonschema
import pytest
import xmlschema

from kgen.errors import TemplateError
from kgen.verdicts import Result, json_of, junit_of, schema_text, summary, text_of
from kgen.verify import LevelResult, Verdict

JUNIT = xmlschema.XMLSchema(Path(__file__).parents[1] / "data" / "junit.xsd")


def verdict(*levels, remembered=False):
    results = tuple(LevelResult(**level) for level in levels)
    return Verdict(levels=results, jax_version="0.12.0", remembered=remembered)


IMPORT = {"level": "import", "status": "passed", "seconds": 0.5}
STATIC = {"level": "static", "status": "passed", "seconds": 0.25}
PASSED = Result(label="specs/a.toml (a)", verdict=verdict(IMPORT, STATIC))
RACE = "at m=1: data race\n  x.py:3: <load> & \x1b\nhint: wait"
FAILED = Result(
    label="x.py",
    verdict=verdict(
        IMPORT,
        STATIC | {"status": "failed", "detail": RACE},
        {"level": "lower", "status": "not_run", "detail": "static failed"},
    ),
)
NOT_SIMULATED = Result(
    label="y.py:f",
    verdict=verdict(
        IMPORT,
        STATIC | {"notes": ("numerics not compared: why",)},
        {
            "level": "simulate",
            "status": "not_run",
            "detail": "not simulated on jax 1: x",
        },
    ),
)
NOT_RENDERED = Result(label="specs/b.toml (b)", error=TemplateError("no such\nthing"))
ALL = [PASSED, FAILED, NOT_SIMULATED, NOT_RENDERED]


def test_what_passed_takes_one_line():
    assert text_of(PASSED) == "passed  specs/a.toml (a)  static 0.2 s"
    remembered = Result(label="a", verdict=verdict(IMPORT, STATIC, remembered=True))
    assert text_of(remembered) == "passed  a  static 0.2 s: remembered"


def test_what_failed_is_told_once_and_whole():
    assert text_of(FAILED) == (
        "FAILED  x.py  static failed after 0.2 s, lower not run\n"
        "    at m=1: data race\n"
        "      x.py:3: <load> & \x1b\n"
        "    hint: wait"
    )


def test_what_could_not_be_simulated_is_no_pass():
    assert text_of(NOT_SIMULATED) == (
        "FAILED  y.py:f  static 0.2 s, simulate not run\n"
        "    note: numerics not compared: why\n"
        "    simulate: not simulated on jax 1: x"
    )


def test_what_could_not_be_rendered_is_told():
    text = "not verified  specs/b.toml (b)\n    no such\n    thing"
    assert text_of(NOT_RENDERED) == text


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([PASSED], "1 verified."),
        (ALL, "1 verified, 3 failed."),
        ([FAILED], "nothing verified, 1 failed."),
    ],
)
def test_the_summary(results, text):
    assert summary(results) == text


@pytest.mark.parametrize("results", [[], [PASSED], ALL])
def test_json_is_what_its_schema_says(results):
    document = json.loads(json_of(results))
    jsonschema.Draft202012Validator(json.loads(schema_text())).validate(document)
    assert [each["target"] for each in document["results"]] == [
        r.label for r in results
    ]
    assert document["passed"] is (results == [PASSED])


def test_the_json_schema_refuses_what_is_something_else():
    document = json.loads(json_of(ALL))
    document["results"][0]["levels"][0]["seconds"] = "long"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(schema_text()))


@pytest.mark.parametrize("results", [[], [PASSED], ALL])
def test_junit_is_what_ci_reads(results):
    JUNIT.validate(junit_of(results))


def test_junit_skips_only_what_follows_a_failure():
    found = JUNIT.to_dict(junit_of(ALL))
    assert (found["@tests"], found["@failures"], found["@errors"]) == (9, 1, 2)
    kinds = [
        next((kind for kind in ("failure", "error", "skipped") if kind in case), None)
        for suite in found["testsuite"]
        for case in suite["testcase"]
    ]
    passed = [None, None]
    assert kinds == [*passed, None, "failure", "skipped", *passed, "error", "error"]


def test_junit_holds_no_character_that_xml_has_not():
    text = junit_of([FAILED])
    assert "\x1b" not in text
    assert "&lt;load&gt; &amp; \ufffd" in text
