"""The operation `matmul`, put together from its stages."""

import dataclasses

from kgen.emit import matmul as emit
from kgen.epilogue.steps import to_json
from kgen.errors import SpecError
from kgen.operations import Operation
from kgen.plan import legality, matmul
from kgen.plan.model import MatmulPlan
from kgen.resources import templates_dir
from kgen.spec.model import Spec
from kgen.spec.source import SourcedSpec
from kgen.verify.request import MATMUL, Request, RequestCase


def plan(source: SourcedSpec) -> MatmulPlan:
    """Returns the plan for one spec.

    Raises:
      SpecError: the spec breaks legality rules; every one of them is told.
    """
    candidate = matmul.resolve(source)
    problems = legality.check(candidate)
    if problems:
        raise SpecError(problems)
    return matmul.finish(candidate, may_differentiate=_may_differentiate(source))


def _may_differentiate(source: SourcedSpec) -> bool:
    """Whether the spec could ask for gradients."""
    kernel = source.spec.kernel.model_copy(update={"autodiff": True})
    spec = source.spec.model_copy(update={"kernel": kernel})
    asked = dataclasses.replace(source, spec=spec)
    return not legality.check(matmul.resolve(asked))


def request(made: MatmulPlan, text: str) -> Request:
    """Returns what the verifier is asked about a module."""
    return Request(
        name=made.name,
        source=text,
        function=MATMUL,
        op=MATMUL,
        arch=made.arch,
        layout=made.layout,
        out_order=made.out_order,
        operand_dtype=made.operand_dtype,
        b_dtype=made.b_dtype,
        out_dtype=made.out_dtype,
        allow=made.allow,
        epilogue=to_json(made.epilogue),
        scale_block=made.scale_block or 0,
        promoted=made.promoted,
        units=made.units,
        blocks=made.blocks,
        grad_units=made.units_to_differentiate if made.autodiff else (),
        batched=made.batched,
        cases=tuple(RequestCase(**dataclasses.asdict(case)) for case in made.cases),
    )


OPERATION = Operation(
    name=MATMUL,
    spec=Spec,
    plan=plan,
    view=emit.view,
    templates=templates_dir(),
    request=request,
    constants=emit.constants,
)
