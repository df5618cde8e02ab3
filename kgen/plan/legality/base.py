"""How a legality rule is written down."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kgen.rules import SPEC, Rule, register

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate


@dataclasses.dataclass(frozen=True)
class Finding:
    """One place where a rule is broken.

    Attributes:
      key: Dotted key of the spec that is to blame.
      message: What was found.
      allowed: What would be accepted.
      hint: What to do; the rule's own page, if left out.
      follows: Sizes (keys) that the finding was computed from. Where one of them is
        itself illegal for wgmma, the finding is a mere consequence and not told.
    """

    key: str
    message: str
    allowed: str | None = None
    hint: str | None = None
    follows: tuple[str, ...] = ()


type Check = Callable[["Candidate"], Iterator[Finding]]

# The functions of the rules, by code.
CHECKS: dict[str, Check] = {}


def rule(
    code: str,
    *,
    title: str,
    reason: str,
    source: str,
    bad: str,
    good: str,
    also_on: tuple[str, ...] = (),
    allowable: bool = False,
) -> Callable[[Check], Check]:
    """Registers a function that yields a finding for every breach of a rule.

    Args:
      code: Code of the rule; this and what follows are attributes of `Rule`.
      title: See there.
      reason: See there.
      source: See there.
      bad: See there.
      good: See there.
      also_on: Where it is checked beside the plan of a spec.
      allowable: See there.
    """

    def decorate(check: Check) -> Check:
        register(
            Rule(
                code=code,
                title=title,
                reason=reason,
                source=source,
                bad=bad,
                good=good,
                checked_on=(SPEC, *also_on),
                allowable=allowable,
            )
        )
        CHECKS[code] = check
        return check

    return decorate
