"""Measures one kernel at one size: right first, then timed in turns with its peers.

A task of `kgen.measure.worker`. It sends one event, `{"event": "record", ...}`, with the
fields of a `results.Record` that this process knows.
"""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgen.measure import results, rivals, timing
from kgen.measure.computed import Computed
from kgen.measure.worker import Session, Worker
from kgen.verify import layout, ptxas, repeats
from kgen.verify.explain import LevelError, explain
from kgen.verify.request import Request
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
        self._computed = Computed.of(self._request)
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
            jax.eval_shape(function, *self._computed.structs())
        except ValueError as error:
            raise RefusedSizesError(explain(error, self._path)) from error
        self._worker.stage("compiling")
        kernel = repeats.Poisoned(function, self._computed.structs())
        self._worker.stage("computing what is right")
        check = self._computed.check(self._reference)
        return check(kernel, stage=self._worker.stage)

    def _time(
        self, function: Callable[..., Any], checks: tuple[str, ...]
    ) -> dict[str, Any]:
        """Times a kernel that is right, and its peers in turns with it."""
        self._worker.stage("drawing operands")
        sets = self._computed.draw(self._session.l2_bytes)
        self._worker.stage("compiling for the times")
        executables = {OURS: timing.compile_each(function, sets)}
        found = rivals.Rivals(self._job, self._computed, sets, self._reference)
        executables |= found.executables
        self._worker.stage("timing")
        samples = timing.interleave(
            executables, sets, rounds=self._job["rounds"], measure=self._session.measure
        )
        device = self._session.device.device_kind
        figures = {
            name: results.timing_of(
                each, self._computed.problem, self._request.arch, device
            )
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
