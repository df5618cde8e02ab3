"""Which rules `verify.allow` may name."""

from collections.abc import Iterator, Sequence
from typing import Any

from kgen.rules import SPEC, Rule, all_rules
from kgen.spec.keys import Finding, closest, get, show_pair
from kgen.spec.locate import KeyPath

ALLOW: KeyPath = ("verify", "allow")


def allowed_findings(data: dict[str, Any]) -> Iterator[Finding]:
    """Yields what is wrong with each code in `verify.allow`, if anything."""
    codes = get(data, ALLOW)
    if not isinstance(codes, list | tuple) or not codes:
        return
    rules = all_rules()
    allowable = [code for code, rule in rules.items() if _is_allowable(rule)]
    for index, code in enumerate(codes):
        if not isinstance(code, str):
            continue  # The model says so.
        fault = _fault(code, rules, seen=codes[:index])
        if fault is not None:
            near = closest(code, allowable) if code not in rules else None
            yield Finding(
                path=(*ALLOW, index),
                code="KG005",
                message=f"{show_pair((*ALLOW, index), code)} {fault}",
                allowed=", ".join(allowable),
                hint=f'did you mean "{near}"?' if near else "see `kgen rule`",
                kind=fault,
            )


def _fault(code: str, rules: dict[str, Rule], seen: Sequence[Any]) -> str | None:
    if code in seen:
        return "is there twice"
    if code not in rules:
        return "is no rule"
    if _is_allowable(rules[code]):
        return None
    if SPEC not in rules[code].checked_on:
        return "is a rule that no spec breaks"
    return "is a rule that cannot be allowed"


def _is_allowable(rule: Rule) -> bool:
    return rule.allowable and SPEC in rule.checked_on
