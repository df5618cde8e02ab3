"""The plan: every choice made, every number resolved, every budget added up."""

from typing import Protocol

from kgen.errors import SpecError
from kgen.plan import legality, matmul
from kgen.plan.candidate import Candidate
from kgen.plan.model import Plan
from kgen.spec.source import SourcedSpec


class Planner(Protocol):
    """The planner of one operation."""

    def resolve(self, source: SourcedSpec) -> Candidate:
        """Fills in whatever the spec leaves to kgen."""

    def finish(self, candidate: Candidate) -> Plan:
        """Returns the plan of a candidate that broke no rule."""


PLANNERS: dict[str, Planner] = {"matmul": matmul}


def make_plan(source: SourcedSpec) -> Plan:
    """Returns the plan for one spec.

    Raises:
      SpecError: the spec breaks legality rules; every one of them is told.
    """
    planner = PLANNERS[source.spec.kernel.op]
    candidate = planner.resolve(source)
    problems = legality.check(candidate)
    if problems:
        raise SpecError(problems)
    return planner.finish(candidate)
