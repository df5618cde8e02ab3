"""The operation `scale` for kgen: y = alpha * x, tile by tile through SMEM."""

from pathlib import Path

from kgen.operations import Operation
from kgen_scale.planner import plan
from kgen_scale.proof import reference, request
from kgen_scale.spec import ScaleSpec
from kgen_scale.view import constants, view

OPERATION = Operation(
    name="scale",
    spec=ScaleSpec,
    plan=plan,
    view=view,
    templates=Path(__file__).parent / "templates",
    request=request,
    reference=reference,
    constants=constants,
)
