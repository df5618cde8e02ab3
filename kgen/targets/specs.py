"""What specs stand for: the modules that they yield, rendered anew."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.errors import UsageError
from kgen.module_cases import EVERY_SIZE
from kgen.shapes import parse_operands
from kgen.targets.asked import Asked, Target, refuse_reference
from kgen.targets.sizes import differentiated, sized, sizes
from kgen.verify.request import OperandCase, RequestCase
from kgen.workers import Track

if TYPE_CHECKING:
    from kgen.emit.render import Module
    from kgen.plan.base import Plan


def of_specs(specs: Sequence[Path], asked: Asked, track: Track) -> Iterator[Target]:
    """Yields what specs render to."""
    if not specs:
        return
    from kgen import pipeline
    from kgen.emit.render import Module
    from kgen.spec.load import find_specs
    from kgen.spec.source import place_of

    refuse_reference(asked)
    plans = pipeline.plan_all(specs)
    files = {place_of(path): str(path) for path in find_specs(specs)}
    for plan, module in pipeline.render_all(plans, asked.jobs, track, asked.templates):
        label = f"{plan.spec_path} ({plan.name})"
        path = files.get(plan.spec_path)
        if not isinstance(module, Module):
            yield Target(label=label, error=module, path=path)
            continue
        path = _rendered(module, asked.out) or path
        request = pipeline.request_of(plan, module, templates=asked.templates)
        if asked.shapes:
            cases = tuple(_case_of_plan(plan, text) for text in asked.shapes)
            request = dataclasses.replace(request, cases=cases)
        yield Target(label=label, request=request, path=path)


def _rendered(module: "Module", out: Path | None) -> str | None:
    """Returns where a module lies as it is rendered, if it does."""
    if out is None:
        return None
    path = out / f"{module.name}.py"
    try:
        return str(path) if path.read_bytes() == module.source.encode() else None
    except OSError:
        return None


def _case_of_plan(plan: "Plan", text: str) -> RequestCase | OperandCase:
    from kgen.plan.dispatch import DispatchPlan
    from kgen.plan.model import MatmulPlan

    if isinstance(plan, DispatchPlan):
        m, n, k = sizes(text, EVERY_SIZE, plan.name)
        if plan.choose((m, n, k)) is None:
            raise UsageError(
                f"--shape {text!r}: no kernel of {plan.name} can do it\n"
                f"  allowed: multiples of {plan.allowed}"
            )
        return RequestCase(m=m, n=n, k=k)
    if not isinstance(plan, MatmulPlan):
        return OperandCase(operands=parse_operands(text))
    found = sized(text, plan.units, plan.name, batched=plan.batched)
    # With fewer steps than slots the ring is shorter than planned.
    full = plan.steps(found.k) >= plan.max_concurrent_steps
    smem = plan.smem.total if full else None
    multiples = plan.units_to_differentiate if plan.autodiff else None
    found = differentiated(found, multiples)
    return dataclasses.replace(found, smem_bytes=smem)
