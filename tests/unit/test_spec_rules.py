"""The examples of the loader's rules are what they claim to be."""

import pytest

from kgen.errors import SpecError
from kgen.rules import all_rules
from kgen.spec import codes
from kgen.spec.load import load_file

RULES = [rule for code, rule in all_rules().items() if code.startswith("KG0")]
HEAD = '[kernel]\nname = "gemm"\nop = "matmul"\n\n'


def completed(piece: str) -> str:
    return piece if "[kernel]" in piece else HEAD + piece


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_bad_example_breaks_exactly_this_rule(rule, tmp_path):
    path = tmp_path / "spec.toml"
    encoding = "latin-1" if rule is codes.TEXT_FILE else "utf-8"
    path.write_text(completed(rule.bad), encoding)
    with pytest.raises(SpecError) as caught:
        load_file(path)
    assert [problem.code for problem in caught.value.problems] == [rule.code]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_good_example_is_accepted(rule, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(completed(rule.good), "utf-8")
    assert len(load_file(path)) >= 1


def test_codes_are_consecutive():
    assert [rule.code for rule in RULES] == [f"KG{n:03}" for n in range(1, 13)]
