"""The peers of one kernel at one size: what can be timed beside it, and what came of it."""

from collections.abc import Callable, Mapping
from typing import Any

from kgen.measure import example, glu, peers, results, timing
from kgen.measure.problem import Problem
from kgen.measure.results import Peer, Tried
from kgen.measure.timing import Compiled, Sets
from kgen.measure.worker import in_a_line
from kgen.verify.request import GLU, Request


class Rivals:
    """The peers of one kernel: what can be timed, and why the others cannot.

    Attributes:
      executables: What is timed. JAX's example may be there several times: the best of
        its sweep are too close together to tell the best one without another look. So
        may XLA, with every form of a gated linear unit.
    """

    def __init__(
        self,
        job: Mapping[str, Any],
        request: Request,
        problem: Problem,
        sets: Sets,
        fused: Callable[..., Any] | None = None,
    ) -> None:
        """Compiles the peers.

        Args:
          job: What is asked.
          request: What the kernel computes.
          problem: The product.
          sets: What the kernel and its peers take.
          fused: Product and epilogue in plain JAX, which only XLA can be given.
        """
        self._fused, self._request = fused, request
        self._batch = problem.batch
        self._names: list[str] = job["peers"]
        self._sweep: dict[str, Any] = job["sweep"]
        self._whys: dict[str, str] = {}
        self._configurations: dict[str, tuple[str, str]] = {}
        self.executables: dict[str, Compiled] = {}
        makers = {
            peers.XLA: lambda: self._xla(problem, sets),
            peers.TORCH: lambda: {peers.TORCH: peers.compile_torch(problem, sets)},
            peers.JAX_EXAMPLE: lambda: self._examples(sets),
        }
        for name in self._names:
            try:
                if request.op == GLU and name != peers.XLA:
                    raise peers.NoPeerError("it has no gated linear unit")
                if fused is not None and name != peers.XLA:
                    raise peers.NoPeerError("it has neither epilogue nor scales")
                self.executables |= _tried_out(makers[name](), sets)
            except peers.NoPeerError as error:
                self._whys[name] = str(error)
            except Exception as error:
                self._whys[name] = in_a_line(error)

    def _xla(self, problem: Problem, sets: Sets) -> dict[str, Compiled]:
        if self._request.op == GLU:
            forms = glu.xla(self._request, problem, sets)
            named = {f"{peers.XLA}: {form}": form for form in forms}
            self._configurations |= {
                name: (peers.XLA, form) for name, form in named.items()
            }
            return {name: forms[form] for name, form in named.items()}
        if self._fused is None:
            return {peers.XLA: peers.compile_xla(problem, sets)}
        return {peers.XLA: timing.compile_each(self._fused, sets)}

    def _examples(self, sets: Sets) -> dict[str, Compiled]:
        if self._batch:
            raise peers.NoPeerError("it takes no batch")
        if self._sweep["detail"]:
            raise peers.NoPeerError(self._sweep["detail"])
        found = {}
        for index, fields in enumerate(self._sweep["finalists"]):
            each = example.Example(**fields)
            name = f"{peers.JAX_EXAMPLE} {index}"
            found[name] = timing.compile_each(example.function(each), sets)
            self._configurations[name] = (peers.JAX_EXAMPLE, str(each))
        return found

    def outcomes(
        self, ours: results.Timing, figures: Mapping[str, results.Timing]
    ) -> list[Peer]:
        """Returns what became of every peer that was asked for."""
        return [self._result(name, ours, figures) for name in self._names]

    def _result(
        self, name: str, ours: results.Timing, figures: Mapping[str, results.Timing]
    ) -> Peer:
        named = [key for key in figures if self._peer_of(key) == name]
        tried = tuple(Tried(**each) for each in self._sweep.get("tried", ()))
        tried = tried if name == peers.JAX_EXAMPLE else ()
        if not named:
            why = self._whys[name]
            return Peer(
                name=name,
                timing=None,
                ratio=None,
                configuration="",
                detail=why,
                tried=tried,
            )
        best = min(named, key=lambda key: figures[key].median_us)
        return Peer(
            name=name,
            timing=figures[best],
            ratio=round(figures[best].median_us / ours.median_us, 4),
            configuration=self._configurations.get(best, ("", ""))[1],
            detail=self._sweep.get("note", "") if name == peers.JAX_EXAMPLE else "",
            tried=tried,
        )

    def _peer_of(self, key: str) -> str:
        return self._configurations.get(key, (key, ""))[0]


def _tried_out(executables: dict[str, Compiled], sets: Sets) -> dict[str, Compiled]:
    """Runs everything once: a peer that fails must not end the measurement."""
    import jax

    wait: Any = jax.block_until_ready
    for compiled in executables.values():
        wait(compiled.run(sets))
    return executables
