"""Specs, plans and modules for tests, from the text of a spec's tables."""

import dataclasses
import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kgen.emit.render import render
from kgen.errors import Problem, SpecError
from kgen.pipeline import request_of
from kgen.plan import make_plan
from kgen.plan.model import MatmulPlan
from kgen.spec.load import load_file
from kgen.spec.source import SourcedSpec
from kgen.verify import lower, simulate
from kgen.verify.request import Request, RequestCase

KERNEL = '[kernel]\nname = "{name}"\nop = "matmul"\n'


def load(directory: Path, text: str, name: str = "made_for_a_test_run") -> SourcedSpec:
    """Returns the spec of some TOML; `[kernel]` may lack its name and op, or be left out."""
    kernel = KERNEL.format(name=name)
    if '\nop = "glu"\n' in text:  # It has a [kernel] of its own.
        kernel = "[kernel]\n"
    path = directory / f"{name}.toml"
    with_kernel = (
        text.replace("[kernel]\n", kernel, 1) if "[kernel]" in text else text + kernel
    )
    path.write_text(with_kernel, "utf-8")
    (spec,) = load_file(path)
    return spec


def plan(directory: Path, text: str, name: str = "made_for_a_test_run") -> MatmulPlan:
    return make_plan(load(directory, text, name))


def plan_or_problems(text: str) -> tuple[MatmulPlan | None, tuple[Problem, ...]]:
    """Returns the plan of some TOML; None, and what is wrong with it, if it is refused."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return plan(Path(directory), text), ()
        except SpecError as error:
            return None, tuple(error.problems)


@dataclasses.dataclass(frozen=True)
class Made:
    """A rendered module that is imported in this process."""

    plan: MatmulPlan
    path: Path
    request: Request
    function: Callable[..., Any]

    def at(
        self,
        *tiles: tuple[int, int, int],
        less: tuple[int, int, int] = (0, 0, 0),
        leading: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    ) -> Request:
        """Returns a request for sizes of so many tiles along m, n and k.

        Where the kernel takes every size, they are `less` than that, but in the same
        tiles. Where it takes batches, A and B have `leading` dimensions.
        """
        plan = self.plan
        sides = (plan.tile_m, plan.tile_n, plan.tile_k)
        cut = [
            each % side if plan.any_edge else 0
            for each, side in zip(less, sides, strict=True)
        ]
        sizes = [
            [n * side - off for n, side, off in zip(counts, sides, cut, strict=True)]
            for counts in tiles
        ]
        a_batch, b_batch = leading if plan.batched else ((), ())
        cases = tuple(
            RequestCase(
                m=m,
                n=n,
                k=k,
                a_batch=a_batch,
                b_batch=b_batch,
                differentiate=self._has_gradients(m, n, k),
            )
            for m, n, k in sizes
        )
        return dataclasses.replace(self.request, cases=cases)

    def _has_gradients(self, *sizes: int) -> bool:
        units = self.plan.units_to_differentiate
        fits = not any(size % unit for size, unit in zip(sizes, units, strict=True))
        return self.plan.autodiff and fits

    def lower(self, request: Request | None = None) -> None:
        lower.run(self.function, request or self.request, self.path, ignore)

    def simulate(self, request: Request | None = None) -> None:
        """Simulates the module, but not in x64 mode as well, as `kgen verify` does."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(simulate, "X64_MODES", (False,))
            simulate.run(self.function, request or self.request, self.path, ignore)


def module(directory: Path, plan: MatmulPlan) -> Made:
    """Renders a plan and imports the module."""
    rendered = render(plan, verified=False, prove=False)
    path = directory / f"{plan.name}.py"
    path.write_text(rendered.source, "utf-8")
    spec = importlib.util.spec_from_file_location(plan.name, path)
    imported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(imported)
    request = request_of(plan, rendered)
    return Made(plan, path, request, getattr(imported, request.function))


def request_at(
    made: MatmulPlan, sizes: Sequence[tuple[tuple[int, int, int], int | None]]
) -> Request:
    """Returns a request for sizes in units along m, n and k, and SMs.

    Where the ring is full, SMEM is as planned.
    """
    cases = []
    for counts, num_sms in sizes:
        m, n, k = (each * unit for each, unit in zip(counts, made.units, strict=True))
        is_full = counts[2] >= made.max_concurrent_steps
        smem_bytes = made.smem.total if is_full else None
        cases.append(RequestCase(m=m, n=n, k=k, smem_bytes=smem_bytes, num_sms=num_sms))
    request = request_of(made, render(made, verified=False, prove=False))
    return dataclasses.replace(request, cases=tuple(cases))


def ignore(_: str) -> None:
    """Takes what a level says about its progress."""
