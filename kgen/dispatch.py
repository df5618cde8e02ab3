"""The operation `dispatch`: a module that picks one of several matmuls by the size."""

from kgen.emit import dispatch as emit
from kgen.operations import Operation
from kgen.plan import dispatch
from kgen.plan.dispatch import DispatchPlan, Shape
from kgen.plan.model import MatmulPlan
from kgen.resources import templates_dir
from kgen.spec.dispatch import DispatchSpec
from kgen.verify.request import MATMUL, Request, RequestCase
from kgen.verify.table import Kernel, Table


def request(made: DispatchPlan, text: str) -> Request:
    """Returns what the verifier is asked about a module.

    The kernels are proven by their own requests. Here small sizes are multiplied, and
    every size of the table is lowered and must ask for the SMEM of the kernel there.
    """
    needed = {plan.name: plan for plan in made.needed}
    small = [RequestCase(m=m, n=n, k=k) for m, n, k in emit.small_sizes(made)]
    table = [_case(needed[bucket.kernel], bucket.shape) for bucket in made.buckets]
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
        allow=tuple(sorted({code for plan in made.needed for code in plan.allow})),
        cases=(*small, *table),
        units=made.least_demanding()[0].units,
        table=_table(made).to_json(),
    )


def _table(made: DispatchPlan) -> Table:
    return Table(
        kernels={each.name: Kernel(each.units, each.max_m) for each in made.kernels},
        buckets={bucket.shape: bucket.kernel for bucket in made.buckets},
    )


def _case(plan: MatmulPlan, shape: Shape) -> RequestCase:
    m, n, k = shape
    # With fewer steps than slots the ring is shorter than planned.
    full = plan.steps(k) >= plan.max_concurrent_steps
    smem = plan.smem.total if full else None
    return RequestCase(m=m, n=n, k=k, smem_bytes=smem, simulate=False)


OPERATION = Operation(
    name="dispatch",
    spec=DispatchSpec,
    plan=dispatch.plan,
    view=emit.view,
    templates=templates_dir(),
    request=request,
    needs=lambda made: made.needed,
)
