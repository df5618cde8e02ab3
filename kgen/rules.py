"""The registry of rules: what each code means, why, and where that is known from.

A rule says what is legal. Rules about the text of a spec (KG0xx) are applied by the
loader; rules about what the hardware and the compiler can do are functions in
`kgen.plan`. `kgen rule` and the docs are printed from here.
"""

import dataclasses
import importlib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
      code: Stable code such as `KG101`.
      title: One line, without a full stop.
      reason: Why the rule exists and what happens without it.
      source: Where that is known from.
      bad: A piece of a spec that breaks the rule.
      good: The same piece, mended.
    """

    code: str
    title: str
    reason: str
    source: str
    bad: str
    good: str


_rules: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Adds `rule` to the registry; a code is given once."""
    if rule.code in _rules:
        raise ValueError(f"rule {rule.code} is registered twice")
    _rules[rule.code] = rule
    return rule


def all_rules() -> dict[str, Rule]:
    """Returns every rule by its code, in the order of the codes."""
    for module in ("kgen.spec.codes", "kgen.plan.legality"):
        importlib.import_module(module)  # For its registrations.
    return dict(sorted(_rules.items()))
