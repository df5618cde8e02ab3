"""Tries configurations of JAX's shipped matmul: a task of `kgen.measure.worker`.

Several workers do it at once, each with its share. They compile side by side; a lock
lets one at a time use the GPU.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgen.measure import correct, example, operands, timing
from kgen.measure.problem import Problem
from kgen.measure.worker import Session, Worker, in_a_line

ROUNDS = 3
LONG_S = 3600.0
"""Others use the GPU: their own limits end this wait, or the budget does."""


def run(worker: Worker) -> None:
    """Tries the configurations of the job, one by one."""
    import jax

    session = worker.session()
    job = worker.job
    problem = Problem(**{**job["problem"], "shape": tuple(job["problem"]["shape"])})
    with jax.default_device(session.device):
        share = _Share(worker, session, problem)
        for index in job["indices"]:
            worker.send("begin", index=index)
            fields = job["configurations"][index]
            found = share.try_one(example.Example(**fields))
            worker.send("tried", index=index, **found)
            if share.is_broken:
                return


class _Share:
    """The configurations of one worker.

    Attributes:
      is_broken: Whether one failed on the GPU. CUDA may then fail whatever comes next,
        and another worker must go on.
    """

    def __init__(self, worker: Worker, session: Session, problem: Problem) -> None:
        self._worker, self._session, self._problem = worker, session, problem
        self._sets: list[tuple[Any, Any]] = []
        self._integers: tuple[Any, Any] | None = None
        self.is_broken = False

    def try_one(self, configuration: example.Example) -> dict[str, Any]:
        """Returns its time, or why it has none."""
        limit = self._worker.job["limit"]
        try:
            if not self._sets:
                self._draw()
            self._worker.stage("compiling", limit)
            function = example.function(configuration)
            compiled = timing.compile_each(function, self._sets)
            with self._gpu():
                self.is_broken = True
                found = self._measure(function, compiled)
                self.is_broken = False
            return found
        except Exception as error:
            return {"us": None, "detail": in_a_line(error)}

    def _measure(self, function: Any, compiled: timing.Compiled) -> dict[str, Any]:
        import jax

        assert self._integers is not None
        product = jax.jit(function)(*self._integers)
        expected = correct.exact_product(self._integers, self._problem)
        if wrong := correct.differs(product, expected, self._problem):
            return {"us": None, "detail": f"wrong: {wrong}"}
        samples = timing.interleave(
            {"": compiled}, self._sets, rounds=ROUNDS, measure=self._session.measure
        )
        return {"us": round(samples[""].median, 4), "detail": ""}

    def _draw(self) -> None:
        problem = self._problem
        with self._gpu():
            self._integers = correct.integers(problem)
            self._sets = operands.draw(problem, l2_bytes=self._session.l2_bytes)

    @contextlib.contextmanager
    def _gpu(self) -> Iterator[None]:
        """Holds the GPU; a process that dies lets go of it."""
        with Path(self._worker.job["lock"]).open("w") as lock:
            self._worker.stage("waiting for the GPU", LONG_S)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._worker.stage("on the GPU", self._worker.job["limit"])
            yield
