"""`kgen rule` and `kgen schema`."""

import json

import pytest
from commands import kgen

from kgen.rule_groups import GROUPS, grouped
from kgen.rules import Rule, all_rules
from kgen.spec.schema import schema_text


def test_lists_every_rule_in_its_group():
    outcome = kgen("rule")
    assert outcome.exit_code == 0
    lines = outcome.stdout.splitlines()
    for code, rule in all_rules().items():
        assert f"  {code}  {rule.title}" in lines
    titles = [line for line in lines if line in GROUPS.values()]
    assert titles == list(GROUPS.values())
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("code", ["KG101", "kg101", "Kg101"])
def test_explains_a_rule(code):
    rule = all_rules()["KG101"]
    outcome = kgen("rule", code)
    assert outcome.exit_code == 0
    assert outcome.stdout.splitlines()[0] == f"KG101: {rule.title}"
    assert "Refused:\n  [tile]\n  m = 100\n" in outcome.stdout
    assert "Accepted:\n  [tile]\n  m = 128\n" in outcome.stdout
    words = outcome.stdout.split()
    assert " ".join(rule.reason.split()) in " ".join(words)
    assert f"Source: {rule.source}" in " ".join(words)
    assert max(map(len, outcome.stdout.splitlines())) <= 80


def test_explains_several_rules_in_the_order_asked():
    outcome = kgen("rule", "KG102", "KG101")
    second = outcome.stdout.index("KG101: ")
    assert outcome.stdout.startswith("KG102: ")
    # An empty line between the two.
    assert outcome.stdout[second - 2 : second] == "\n\n"


def test_json():
    outcome = kgen("rule", "kg101", "--format", "json")
    (rule,) = json.loads(outcome.stdout)["rules"]
    assert list(rule) == [
        "code",
        "title",
        "reason",
        "source",
        "bad",
        "good",
        "checked_on",
        "allowable",
    ]
    assert rule["code"] == "KG101"
    every = json.loads(kgen("rule", "--format", "json").stdout)["rules"]
    assert [rule["code"] for rule in every] == list(all_rules())


def test_an_unknown_code():
    outcome = kgen("rule", "KG1O1")
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert outcome.stderr == (
        "error: no rule is called KG1O1\n"
        "  hint: did you mean KG101 or KG511 or KG611?\n"
    )


@pytest.mark.parametrize("code", ["", "\x1b[31m", "x" * 10_000, "\udcff", "ß"])
def test_a_code_like_no_other(code):
    outcome = kgen("rule", code)
    assert outcome.exit_code == 2
    assert outcome.stderr.endswith("  hint: see `kgen rule`\n")
    assert "\x1b" not in outcome.stderr


def test_a_rule_without_a_group_is_noticed():
    rule = Rule(code="XX1", title="", reason="", source="", bad="", good="")
    with pytest.raises(LookupError, match="XX1 belongs to no group"):
        grouped({"XX1": rule})


def test_schema():
    outcome = kgen("schema")
    assert outcome.exit_code == 0
    assert outcome.stdout == schema_text()
    assert json.loads(outcome.stdout)["required"] == ["kernel"]
