"""Measures kernels at sizes, one after the other, and collects what was found.

Each kernel and size has a process of its own with a time limit; this process never
touches the GPU. What is verified besides is verified before, several at once: nothing is
timed meanwhile.
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kgen import __version__
from kgen.code import code_digest
from kgen.emit import provenance
from kgen.errors import UsageError
from kgen.measure import peers, process, results, sweep
from kgen.measure.decode import decode
from kgen.measure.problem import Problem
from kgen.measure.results import Document, Machine, Record
from kgen.plan.dtypes import default_out
from kgen.verify import verify
from kgen.verify.request import (
    GLU,
    GPU,
    MATMUL,
    Request,
    RequestCase,
    Verdict,
    is_empty,
)
from kgen.workers import in_threads

SESSION = "kgen.measure.worker:on_gpu"
"""What workers measure with."""

PROBE_S = 120.0
MOST_VERIFIED = 12
"""Kernels that are verified at once: each holds operands on the GPU."""

LEAST_S = 45.0
"""Seconds before the deadline in which no further job begins."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One kernel at one size.

    Attributes:
      target: What the user calls it.
      path: Its file; empty if it has none.
      request: The module, with one case.
    """

    target: str
    path: str
    request: Request

    @property
    def shape(self) -> tuple[int, int, int]:
        case = self.request.cases[0]
        assert isinstance(case, RequestCase)
        return case.m, case.n, case.k

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading dimensions of both operands."""
        case = self.request.cases[0]
        assert isinstance(case, RequestCase)
        return case.batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How it is measured.

    Attributes:
      peers: What is measured beside, in this order.
      rounds: How often each is timed.
      timeout: Seconds for one kernel at one size, without the sweep of a peer.
      sweep_budget: Seconds for the sweep of JAX's example at one size.
      verify: Whether the level `gpu` of `kgen verify` runs, too.
    """

    peers: tuple[str, ...] = (peers.XLA,)
    rounds: int = 10
    timeout: float = 300.0
    sweep_budget: float = sweep.BUDGET_S
    verify: bool = False


def jobs_of(target: str, path: str | None, request: Request) -> list[Job]:
    """Returns the jobs of a target, one for each of its sizes.

    Raises:
      UsageError: it is none, and no gated linear unit; or there is nothing to multiply.
    """
    if request.op not in {MATMUL, GLU}:
        raise UsageError(
            f"{target} is no matrix product, which is all that kgen bench measures\n"
            '  allowed: specs with op = "matmul" or "glu", and their modules'
        )
    for case in request.cases:
        if is_empty(case):
            raise UsageError(
                f"{target} at {case} is a product of nothing\n"
                "  allowed: M,N,K of 1 or more, such as 4096,4096,4096"
            )
    return [
        Job(
            target=target,
            path=path or "",
            request=dataclasses.replace(request, cases=(case,)),
        )
        for case in request.cases
    ]


def probe(arch: str) -> Machine:
    """Returns what this machine is.

    Raises:
      KgenError: it has no GPU of this architecture.
    """
    job = {"task": "probe", "session": SESSION, "arch": arch}
    try:
        for event in process.events(job, limit=PROBE_S):
            if event["event"] == "machine":
                return Machine(**event["machine"])
    except process.EndedError as error:
        raise UsageError(
            f"nothing to measure on: JAX cannot start: {error}\n"
            "  hint: `kgen doctor` tells what JAX sees"
        ) from None
    raise AssertionError("a probe tells the machine, or why not")


def measure(
    jobs: Sequence[Job],
    options: Options,
    *,
    stage: Callable[[Job, str], None] = lambda *_: None,
    deadline: float = math.inf,
) -> Iterator[Document]:
    """Measures jobs one by one.

    Args:
      jobs: What is measured.
      options: How.
      stage: Told what is done.
      deadline: When to end, as `time.monotonic` counts: no job begins shortly before,
        and none goes on after it.

    Yields:
      Everything so far, each time that one more is measured.

    Raises:
      KgenError: there is nothing to measure on.
    """
    machines = {arch: probe(arch) for arch in {job.request.arch for job in jobs}}
    sweeps: dict[Problem, sweep.Sweep] = {}
    records: list[Record] = []
    left = deadline - time.monotonic()
    verdicts = _verdicts(jobs, _within(options, left), stage)
    for job, verdict in zip(jobs, verdicts, strict=True):
        left = deadline - time.monotonic()
        if left < LEAST_S:
            return
        records.append(_record(job, verdict, _within(options, left), sweeps, stage))
        yield Document(
            kind=results.KIND,
            format=results.FORMAT,
            kgen=__version__,
            machine=machines[job.request.arch],
            rounds=options.rounds,
            results=tuple(records),
        )


def _verdicts(
    jobs: Sequence[Job], options: Options, stage: Callable[[Job, str], None]
) -> list[Verdict | None]:
    """Returns what the level `gpu` says of every job; None where it is not asked."""
    if not options.verify:
        return [None] * len(jobs)

    def run(job: Job) -> Verdict:
        stage(job, "verifying")
        return verify(job.request, levels=(GPU,), timeout=options.timeout, cache=False)

    cores = len(os.sched_getaffinity(0))
    return list(
        in_threads(
            run,
            jobs,
            jobs=min(cores, MOST_VERIFIED),
            track=lambda futures, _: futures,
            doing="verifying",
        )
    )


def _record(
    job: Job,
    verdict: Verdict | None,
    options: Options,
    sweeps: dict[Problem, sweep.Sweep],
    stage: Callable[[Job, str], None],
) -> Record:
    """Measures one job."""
    record = _begun(job)
    if verdict is not None:
        record = dataclasses.replace(record, verification=verdict.levels)
        if (failure := verdict.failure) is not None:
            return dataclasses.replace(record, detail=f"kgen verify: {failure}")
    found = sweep.Sweep(detail="not asked for")
    if peers.JAX_EXAMPLE in options.peers and not job.batch:
        stage(job, f"sweeping {peers.JAX_EXAMPLE}")
        if record.problem not in sweeps:
            sweeps[record.problem] = sweep.run(
                record.problem,
                session=SESSION,
                arch=job.request.arch,
                budget=options.sweep_budget,
            )
        found = sweeps[record.problem]
    told = {
        "task": "bench",
        "session": SESSION,
        "arch": job.request.arch,
        "request": job.request.to_json(),
        "peers": list(options.peers),
        "rounds": options.rounds,
        "sweep": dataclasses.asdict(found),
    }
    try:
        for event in process.events(told, limit=options.timeout):
            if event["event"] == "stage":
                stage(job, event["text"])
            elif event["event"] == "record":
                return _completed(record, event)
    except process.EndedError as error:
        return dataclasses.replace(record, detail=str(error))
    raise AssertionError("a worker sends its record before it is done")


def _within(options: Options, left: float) -> Options:
    """Returns options whose parts together take no longer than `left` seconds."""
    return dataclasses.replace(
        options,
        timeout=min(options.timeout, left / 3),
        sweep_budget=min(options.sweep_budget, left / 3),
    )


def _begun(job: Job) -> Record:
    """Returns what is known of a job before it runs; failed, unless something comes."""
    request = job.request
    header = provenance.read(request.source)
    return Record(
        target=job.target,
        name=request.name,
        path=job.path,
        shape=job.shape,
        batch=job.batch,
        layout=request.layout,
        operand_dtype=request.operand_dtype,
        b_dtype=request.b_dtype,
        out_dtype=request.out_dtype or default_out(request.operand_dtype),
        arch=request.arch,
        source_digest=code_digest(request.source),
        spec_digest=header.spec_digest if header else "",
        text_digest=header.text_digest if header else "",
        status=results.FAILED,
        detail="",
        checks=(),
        verification=(),
        registers=None,
        spilled_bytes=None,
        notes=(),
        timing=None,
        peers=(),
    )


def _completed(record: Record, event: dict[str, Any]) -> Record:
    """Returns a record with what its worker sent."""
    sent = {name: value for name, value in event.items() if name != "event"}
    # Through JSON, so that everything is as the worker's JSON has it.
    fields = json.loads(json.dumps({**dataclasses.asdict(record), **sent}))
    return decode(Record, fields)
