"""The peers of one kernel at one size: what can be timed beside it, and what came of it."""

from collections.abc import Callable, Mapping
from typing import Any

from kgen.measure import example, peers, results, timing
from kgen.measure.computed import Computed
from kgen.measure.results import Peer, Tried
from kgen.measure.timing import Compiled, Sets
from kgen.measure.worker import in_a_line
from kgen.verify.request import GLU


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
        computed: Computed,
        sets: Sets,
        reference: Callable[..., Any] | None,
    ) -> None:
        """Compiles the peers.

        Args:
          job: What is asked.
          computed: What the kernel computes.
          sets: What the kernel and its peers take.
          reference: The module's own, if it has one.
        """
        self._computed, self._reference = computed, reference
        self._names: list[str] = job["peers"]
        self._sweep: dict[str, Any] = job["sweep"]
        self._whys: dict[str, str] = {}
        self._configurations: dict[str, tuple[str, str]] = {}
        self.executables: dict[str, Compiled] = {}
        makers = {
            peers.XLA: lambda: self._xla(sets),
            peers.TORCH: lambda: self._torch(sets),
            peers.JAX_EXAMPLE: lambda: self._examples(sets),
        }
        for name in self._names:
            try:
                if name != peers.XLA:
                    self._refuse_all_but_products()
                self.executables |= _tried_out(makers[name](), sets)
            except peers.NoPeerError as error:
                self._whys[name] = str(error)
            except Exception as error:
                self._whys[name] = in_a_line(error)

    def _refuse_all_but_products(self) -> None:
        if self._computed.request.op == GLU:
            raise peers.NoPeerError("it has no gated linear unit")
        if self._computed.needs_reference:
            raise peers.NoPeerError("it has neither epilogue nor scales")

    def _xla(self, sets: Sets) -> dict[str, Compiled]:
        forms = self._computed.xla(sets, self._reference)
        named = {f"{peers.XLA}: {form}" if form else peers.XLA: form for form in forms}
        self._configurations |= {
            name: (peers.XLA, form) for name, form in named.items()
        }
        return {name: forms[form] for name, form in named.items()}

    def _torch(self, sets: Sets) -> dict[str, Compiled]:
        return {peers.TORCH: peers.compile_torch(self._computed.problem, sets)}

    def _examples(self, sets: Sets) -> dict[str, Compiled]:
        if self._computed.problem.batch:
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
