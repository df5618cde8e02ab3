"""The plan: every choice made, every number resolved, every budget added up."""

from typing import TYPE_CHECKING

from kgen import operations
from kgen.errors import SpecError
from kgen.plan.base import Plan

if TYPE_CHECKING:
    from kgen.spec.source import SourcedSpec


def make_plan(source: "SourcedSpec") -> Plan:
    """Returns the plan for one spec.

    Raises:
      SpecError: the spec breaks legality rules, and every one of them is told; or the
        planner of a plug-in fails.
    """
    operation = operations.get(source.spec.kernel.op)
    try:
        plan: Plan = operations.call(operation, "plan", source)
    except operations.PluginError as error:
        problem = source.problem("kernel.op", "KG005", error.message, hint=error.hint)
        raise SpecError((problem,)) from error
    return plan
