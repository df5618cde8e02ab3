"""The plan: every choice made, every number resolved, every budget added up."""

from kgen import operations
from kgen.plan.base import Plan
from kgen.spec.source import SourcedSpec


def make_plan(source: SourcedSpec) -> Plan:
    """Returns the plan for one spec.

    Raises:
      SpecError: the spec breaks legality rules; every one of them is told.
      PluginError: the planner of a plug-in fails.
    """
    operation = operations.get(source.spec.kernel.op)
    plan: Plan = operations.call(operation, "plan", source)
    return plan
