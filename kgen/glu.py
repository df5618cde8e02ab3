"""The operation `glu`, put together from its stages: planned as a matmul is."""

import dataclasses
import json

from kgen import matmul
from kgen.emit import glu
from kgen.emit import matmul as emit
from kgen.operations import Operation
from kgen.plan.model import MatmulPlan
from kgen.resources import templates_dir
from kgen.spec.glu import GluSpec
from kgen.verify.request import GLU, Request


def request(made: MatmulPlan, text: str) -> Request:
    """Returns what the verifier is asked about a module."""
    return dataclasses.replace(
        matmul.request(made, text),
        function=GLU,
        op=GLU,
        parameters=json.dumps({"activation": made.activation}),
    )


OPERATION = Operation(
    name=GLU,
    spec=GluSpec,
    plan=matmul.plan,
    view=glu.view,
    templates=templates_dir(),
    request=request,
    constants=emit.constants,
)
