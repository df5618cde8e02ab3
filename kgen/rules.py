"""The registry of rules: what each code means, why, and where that is known from.

A rule says what is legal. Rules about the text of a spec (KG0xx) are applied by the
loader; rules about what the hardware and the compiler can do are functions, of a plan
in `kgen.plan`, of a traced kernel in `kgen.verify.static`, or both. `kgen rule` and the
docs are printed from here.
"""

import dataclasses
import importlib

SPEC, TRACE, SIMULATE = "spec", "trace", "simulate"
"""Where a rule is checked: on the plan of a spec; on a traced kernel, whoever wrote it;
in JAX's interpreter, while the kernel runs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
      code: Stable code such as `KG101`.
      title: One line, without a full stop.
      reason: Why the rule exists and what happens without it.
      source: Where that is known from.
      bad: A piece of a spec that breaks the rule; of a kernel, if no spec can.
      good: The same piece, mended.
      checked_on: Where it is checked: `spec`, `trace`, `simulate`.
      allowable: Whether a user may allow that it is broken. Without some rules there is
        no kernel to speak of, or one that is not what the spec says.
    """

    code: str
    title: str
    reason: str
    source: str
    bad: str
    good: str
    checked_on: tuple[str, ...] = (SPEC,)
    allowable: bool = False

    @property
    def language(self) -> str:
        """Language of the examples."""
        return "toml" if SPEC in self.checked_on else "python"

    @property
    def scope(self) -> str:
        """Where the rule is checked, and whether a spec may allow a breach."""
        where = f"Checked on: {', '.join(self.checked_on)}"
        may = self.allowable and SPEC in self.checked_on
        return f"{where}; `verify.allow` may name it" if may else where


_rules: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Adds `rule` to the registry; a code is given once."""
    if rule.code in _rules:
        raise ValueError(f"rule {rule.code} is registered twice")
    _rules[rule.code] = rule
    return rule


def checked_on_about() -> str:
    """Returns what it means where a rule is checked."""
    return (
        "A rule is checked on a spec, before anything is rendered; on the trace of a "
        "kernel, whoever wrote it (level static); or in a simulation (level simulate), "
        "where it is no single operation that breaks it. Examples of rules that only a "
        "kernel can break are in Python."
    )


def all_rules() -> dict[str, Rule]:
    """Returns every rule by its code, in the order of the codes."""
    for module in (
        "kgen.spec.codes",
        "kgen.plan.legality",
        "kgen.plan.dispatch_rules",
        "kgen.verify.static.rules",
    ):
        importlib.import_module(module)  # For its registrations.
    return dict(sorted(_rules.items()))


def multiples(step: int, top: int) -> str:
    """Returns the multiples of `step` up to `top` as text."""
    values = range(step, top + 1, step)
    if len(values) > 8:
        return f"multiples of {step} up to {top}"
    return ", ".join(map(str, values)) or f"a multiple of {step}"
