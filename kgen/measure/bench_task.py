"""Measures one kernel at one size: right first, then timed in turns with its peers.

A task of `kgen.measure.worker`. It sends one event, `{"event": "record", ...}`, with the
fields of a `results.Record` that this process knows.
"""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgen.errors import KgenError
from kgen.measure import (
    correct,
    epilogue,
    glu,
    operands,
    results,
    rivals,
    scales,
    timing,
)
from kgen.measure.problem import Problem
from kgen.measure.timing import Sets
from kgen.measure.worker import Session, Worker
from kgen.plan.dtypes import default_out
from kgen.verify import layout, ptxas
from kgen.verify.explain import LevelError, explain
from kgen.verify.request import GLU, Request
from kgen.verify.worker import load

OURS = "kernel"


class RefusedSizesError(Exception):
    """The module does not take these sizes."""


def run(worker: Worker) -> None:
    """Does the job."""
    import jax

    session = worker.session()
    bench = Bench(worker, session)
    with jax.default_device(session.device):
        worker.send("record", **bench.run())


class Bench:
    """One kernel at one size."""

    def __init__(self, worker: Worker, session: Session) -> None:
        self._worker, self._session, self._job = worker, session, worker.job
        self._request = Request.from_json(self._job["request"])
        self._problem = Problem(
            shape=tuple(self._job["shape"]),
            operand_dtype=self._request.operand_dtype,
            b_dtype=self._request.b_dtype,
            out_dtype=self._request.out_dtype
            or default_out(self._request.operand_dtype),
            layout=self._request.layout,
            out_order=self._request.out_order,
            batch=tuple(self._job["batch"]),
            weights=2 if self._request.op == GLU else 1,
        )
        self._directory = Path(self._job["directory"])
        self._path = layout.own_path(self._request, self._directory)

    def run(self) -> dict[str, Any]:
        """Returns the fields of the record."""
        printed = ptxas.Printed()
        try:
            with printed:
                function = self._import()
                checks = self._check(function)
        except RefusedSizesError as error:
            return {"status": results.REFUSED, "detail": str(error)}
        except LevelError as error:
            refusal = ptxas.describe_refusal(ptxas.parse(printed.text))
            status = results.FAILED if refusal else results.WRONG
            return {"status": status, "detail": refusal or str(error)}
        except Exception as error:
            refusal = ptxas.describe_refusal(ptxas.parse(printed.text))
            detail = refusal or explain(error, self._path)
            return {"status": results.FAILED, "detail": detail}
        return {**_told(ptxas.parse(printed.text)), **self._time(function, checks)}

    def _import(self) -> Callable[..., Any]:
        self._worker.stage("importing the module")
        if self._request.path:
            sys.path.insert(0, str(self._path.parent))
        else:
            layout.write(self._request, self._directory)
        module = load(layout.full_name(self._request), self._path)
        function: Callable[..., Any] = getattr(module, self._request.function)
        self._reference = getattr(module, "reference", None)
        return function

    def _check(self, function: Callable[..., Any]) -> tuple[str, ...]:
        import jax

        self._worker.stage("tracing")
        try:
            jax.eval_shape(function, *self._structs())
        except ValueError as error:
            raise RefusedSizesError(explain(error, self._path)) from error
        if self._request.op == GLU:
            assert self._reference is not None, "a gated linear unit has one"
            return glu.check(
                function,
                self._reference,
                self._problem,
                self._request,
                stage=self._worker.stage,
            )
        if self._request.scale_block:
            assert self._reference is not None, "a module with scales has one"
            return scales.check(
                function,
                self._reference,
                self._problem,
                self._request,
                stage=self._worker.stage,
            )
        if self._request.steps:
            assert self._reference is not None, "a module with an epilogue has one"
            return epilogue.check(
                function,
                self._reference,
                self._problem,
                self._request.steps,
                stage=self._worker.stage,
            )
        return correct.check(function, self._problem, stage=self._worker.stage)

    def _time(
        self, function: Callable[..., Any], checks: tuple[str, ...]
    ) -> dict[str, Any]:
        """Times a kernel that is right, and its peers in turns with it."""
        self._worker.stage("drawing operands")
        problem, l2_bytes = self._problem, self._session.l2_bytes
        sets = self._with_arguments(operands.draw(problem, l2_bytes=l2_bytes))
        self._worker.stage("compiling for the times")
        executables = {OURS: timing.compile_each(function, sets)}
        found = rivals.Rivals(self._job, self._request, problem, sets, self._fused())
        executables |= found.executables
        self._worker.stage("timing")
        samples = timing.interleave(
            executables, sets, rounds=self._job["rounds"], measure=self._session.measure
        )
        device = self._session.device.device_kind
        figures = {
            name: results.timing_of(each, problem, self._request.arch, device)
            for name, each in samples.items()
        }
        ours = figures[OURS]
        return {
            "status": results.MEASURED,
            "detail": "",
            "checks": checks,
            "timing": dataclasses.asdict(ours),
            "peers": [dataclasses.asdict(p) for p in found.outcomes(ours, figures)],
        }

    def _structs(self) -> list[Any]:
        """Returns shapes and dtypes of everything that the function takes."""
        if self._request.scale_block and self._request.steps:
            raise KgenError("a kernel with scales and an epilogue cannot be measured")
        if self._problem.batch and self._request.steps:
            raise KgenError("a batch with an epilogue cannot be measured")
        if self._request.op == GLU:
            return glu.all_structs(self._problem)
        if self._request.scale_block:
            return scales.all_structs(self._problem, self._request)
        return epilogue.all_structs(self._problem, self._request.steps)

    def _with_arguments(self, sets: Sets) -> Sets:
        """Returns sets of everything that the function takes."""
        if self._request.op == GLU:
            return glu.extend(sets)
        if self._request.scale_block:
            return scales.extend(sets, self._problem, self._request)
        steps = self._request.steps
        return epilogue.extend(sets, self._problem, steps) if steps else sets

    def _fused(self) -> Callable[..., Any] | None:
        """Returns product and epilogue in plain JAX; None without an epilogue.

        With scales it is the product alone, of the same operands.
        """
        if self._request.scale_block:
            return scales.unscaled(self._problem)
        return self._reference if self._request.steps else None


def _told(report: ptxas.Report) -> dict[str, Any]:
    """Returns what ptxas said, as fields of the record."""
    if report.registers is None:
        return {}
    spilled = report.spilled
    return {
        "registers": report.registers,
        "spilled_bytes": spilled.spill_store_bytes if spilled else 0,
        "notes": ptxas.notes(report)[1:],
    }
