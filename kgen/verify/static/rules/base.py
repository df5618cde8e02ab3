"""How a rule is checked on a traced kernel."""

import dataclasses
from collections.abc import Callable, Iterator

from kgen.rules import SIMULATE, TRACE, Rule, register
from kgen.verify.static.facts import Kernel, Place


@dataclasses.dataclass(frozen=True)
class Finding:
    """One place where a kernel breaks a rule.

    Attributes:
      place: Where.
      message: What was found.
      allowed: What would be accepted.
      hint: What to do; the rule's own page, if left out.
    """

    place: Place
    message: str
    allowed: str | None = None
    hint: str | None = None

    def text(self, code: str) -> str:
        """Returns what a user is told."""
        lines = [f"{code} {self.message}", f"  {self.place.text}"]
        if self.allowed is not None:
            lines.append(f"  allowed: {self.allowed}")
        lines.append(f"  hint: {self.hint or f'see `kgen rule {code}`'}")
        return "\n".join(lines)


type Check = Callable[[Kernel], Iterator[Finding]]

TRACED: dict[str, Check] = {}
"""The functions of the rules, by code."""


def traced(code: str) -> Callable[[Check], Check]:
    """Makes a function the check of a rule that is declared elsewhere."""

    def decorate(check: Check) -> Check:
        TRACED[code] = check
        return check

    return decorate


def rule(
    code: str, *, title: str, reason: str, source: str, bad: str, good: str
) -> Callable[[Check], Check]:
    """Declares a rule that no spec can break; the function is its check."""
    register(
        Rule(
            code=code,
            title=title,
            reason=reason,
            source=source,
            bad=bad,
            good=good,
            checked_on=(TRACE,),
            allowable=True,
        )
    )
    return traced(code)


def declare(
    code: str,
    *,
    title: str,
    reason: str,
    source: str,
    bad: str,
    good: str,
    simulated: bool = False,
) -> None:
    """Declares a rule that JAX itself enforces while it traces, or that a simulation does.

    Args:
      code: Code of the rule; this and what follows are attributes of `Rule`.
      title: See there.
      reason: See there.
      source: See there.
      bad: See there.
      good: See there.
      simulated: Whether only a simulation shows a breach.
    """
    register(
        Rule(
            code=code,
            title=title,
            reason=reason,
            source=source,
            bad=bad,
            good=good,
            checked_on=(SIMULATE if simulated else TRACE,),
        )
    )
