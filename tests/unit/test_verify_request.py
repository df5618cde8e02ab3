"""Requests and verdicts as values and as JSON."""

import json

import pytest
from verify_requests import request

from kgen.verify import LevelResult, Request, RequestCase, Verdict

PASSED = LevelResult(level="import", status="passed", seconds=0.5)
VERDICT = Verdict(levels=(PASSED,), jax_version="0.12.0")


def test_a_request_makes_the_round_trip():
    asked = request(
        source='"""\n{{ é }}\r\n',
        cases=(
            RequestCase(m=1, n=2, k=3, smem_bytes=4, simulate=False),
            RequestCase(m=5, n=6, k=7),
            RequestCase(m=8, n=9, k=10, num_sms=11),
        ),
        units=(1, 1, 1),
        blocks=(128, 64, 32),
        batched=True,
        table='{"kernels": {}, "buckets": []}',
    )
    assert Request.from_json(asked.to_json()) == asked


def test_a_verdict_makes_the_round_trip():
    assert Verdict.from_json(VERDICT.to_json()) == VERDICT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"jax_version": 12}, "jax_version must be <class 'str'>, got 12"),
        ({"remembered": 1}, "remembered must be <class 'bool'>, got 1"),
        ({"levels": {}}, "levels must be a list"),
        ({"levels": [1]}, "expected an object, got int"),
        ({"more": 1}, "expected the fields"),
        (
            {"levels": [{**vars(PASSED), "status": "fine"}]},
            "status must be one of passed, failed, not_run, got 'fine'",
        ),
        (
            {"levels": [{**vars(PASSED), "seconds": True}]},
            "seconds must be <class 'float'>, got True",
        ),
    ],
)
def test_a_verdict_of_another_form_is_refused(change, message):
    fields = json.loads(VERDICT.to_json()) | change
    with pytest.raises(ValueError, match=message):
        Verdict.from_json(json.dumps(fields))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"levels": []}'])
def test_what_is_no_verdict_is_refused(text):
    with pytest.raises(ValueError, match=r"^"):
        Verdict.from_json(text)


def test_a_verdict_passed_only_if_every_level_did():
    not_run = LevelResult(level="simulate", status="not_run", detail="no sizes")
    assert VERDICT.passed
    assert VERDICT.failure is None
    partly = Verdict(levels=(PASSED, not_run), jax_version="")
    assert not partly.passed
    assert str(partly.failure) == "simulate not_run: no sizes"
    assert not Verdict(levels=(), jax_version="").passed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": "tx"}, "layout must be one of nn, nt, tn, tt, got 'tx'"),
        ({"out_order": "c"}, "out_order must be one of row, column, got 'c'"),
        ({"out_dtype": "int8"}, "out_dtype must be one of float16, bfloat16, float32"),
        ({"name": "../x"}, "name must be an identifier, got '../x'"),
    ],
)
def test_a_request_checks_its_words(change, message):
    with pytest.raises(ValueError, match=message):
        request(**change)
