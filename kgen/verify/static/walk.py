"""Walks the jaxpr of a kernel and writes down the facts."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kgen.arch import Arch
from kgen.verify import upstream
from kgen.verify.explain import describe_line
from kgen.verify.static import arithmetic, values
from kgen.verify.static.facts import Kernel, Place
from kgen.verify.static.operations import Recorder
from kgen.verify.static.pieces import Pieces, jaxprs_in, opened
from kgen.verify.static.resources import Resources, estimate
from kgen.verify.static.values import UNKNOWN, Value


@dataclasses.dataclass(frozen=True)
class Ref:
    """A ref in memory.

    Attributes:
      root: Says which memory; equal refs share it.
      aval: Its physical type.
    """

    root: object
    aval: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scope:
    """What holds at some place in a kernel.

    Attributes:
      place: The nearest line that is known.
      threads: Threads that come here.
      guards: Axes that decide whether anything comes here; None for anything.
      registers: Registers per thread of the accumulators that are live.
    """

    place: Place
    threads: frozenset[int]
    guards: frozenset[str] | None
    registers: int = 0


def kernels(pieces: Pieces, jaxpr: Any, module: Path, arch: Arch) -> list[Kernel]:
    """Returns the facts of every Mosaic GPU kernel in a jaxpr, in their order."""
    start = Place(line=None, text=f"in {module.name}")
    return [
        Walker(pieces, module, mesh, params).facts(body, arch, place)
        for mesh, body, params, place in _bodies(pieces, jaxpr, module, start)
    ]


def _bodies(
    pieces: Pieces, jaxpr: Any, module: Path, around: Place
) -> Iterator[tuple[Any, Any, dict[str, Any], Place]]:
    """Yields mesh, body, parameters and place of every kernel."""
    for eqn in jaxpr.eqns:
        place = _place(eqn, module, around)
        if eqn.primitive is not pieces.kernel:
            for inner in jaxprs_in(eqn.params.values()):
                yield from _bodies(pieces, inner, module, place)
            continue
        meshes, bodies = eqn.params["meshes"], eqn.params["jaxprs"]
        for mesh, body in zip(meshes, bodies, strict=True):
            if isinstance(mesh, pieces.core.Mesh):
                yield mesh, opened(body), eqn.params, place


class Walker:
    """Walks one kernel."""

    def __init__(
        self, pieces: Pieces, module: Path, mesh: Any, params: dict[str, Any]
    ) -> None:
        self.pieces = pieces
        self.module = module
        self.mesh = mesh
        self.num_threads = int(mesh.num_threads or 1)
        semantics = getattr(params.get("compiler_params"), "lowering_semantics", None)
        self.lane_semantics = getattr(semantics, "name", "") == "Lane"
        self.scratch = getattr(
            params.get("compiler_params"), "reduction_scratch_bytes", 2048
        )
        self.recorder = Recorder(pieces, self.lane_semantics)
        self._walks = {
            pieces.run_scoped.name: self._run_scoped,
            "run_state": self._run_state,
            "cond": self._cond,
            "scan": self._scan,
            "while": self._while,
            "axis_index": self._axis_index,
        }

    def facts(self, body: Any, arch: Arch, place: Place) -> Kernel:
        """Returns the facts of the kernel with this body."""
        scope = Scope(
            place=place,
            threads=frozenset(range(self.num_threads)),
            guards=frozenset(),
        )
        refs = [Ref(object(), variable.aval) for variable in body.invars]
        self._walk(body, refs, scope)
        needed: Resources = estimate(self.pieces, body, int(self.scratch))
        mesh, recorder = self.mesh, self.recorder
        return Kernel(
            place=place,
            arch=arch,
            lane_semantics=self.lane_semantics,
            grid=tuple(map(int, mesh.grid)),
            grid_names=tuple(map(str, mesh.grid_names)),
            cluster=tuple(map(int, mesh.cluster)),
            cluster_names=tuple(map(str, mesh.cluster_names)),
            num_threads=self.num_threads,
            smem_bytes=needed.smem_bytes,
            tmem_columns=needed.tmem_columns,
            allocations=tuple(recorder.allocations),
            wgmmas=tuple(recorder.wgmmas),
            mmas=tuple(recorder.mmas),
            copies=recorder.all_copies(),
            registers=tuple(recorder.registers),
            powers=tuple(recorder.powers),
            reversed_loops=tuple(recorder.reversed_loops),
            gmem=tuple(tuple(map(int, v.aval.shape)) for v in body.invars),
        )

    def _walk(self, jaxpr: Any, inputs: Sequence[Any], scope: Scope) -> list[Any]:
        """Walks a jaxpr on refs and values; returns what it returns."""
        variables = (*jaxpr.constvars, *jaxpr.invars)
        # Nothing is known of the inputs of an operation that is not known itself.
        known = dict(zip(variables, inputs, strict=bool(inputs)))

        def lookup(atom: Any) -> Any:
            if isinstance(atom, self.pieces.literal):
                return arithmetic.number(atom.val)
            if isinstance(atom, int):
                return values.constant(atom)
            return known.get(atom, UNKNOWN)

        for eqn in jaxpr.eqns:
            at = dataclasses.replace(scope, place=_place(eqn, self.module, scope.place))
            inputs = [lookup(atom) for atom in eqn.invars]
            outputs = self._step(eqn, inputs, at, lookup)
            known.update(zip(eqn.outvars, outputs, strict=False))
        return [lookup(atom) for atom in jaxpr.outvars]

    def _step(
        self, eqn: Any, inputs: list[Any], scope: Scope, lookup: Callable[[Any], Any]
    ) -> list[Any]:
        """Walks one operation; returns its results as far as they are known."""
        walk = self._walks.get(eqn.primitive.name)
        if walk is not None:
            return walk(eqn, inputs, scope)
        inner = list(jaxprs_in(eqn.params.values()))
        if inner:
            return self._walk_inner(inner, inputs, scope, len(eqn.outvars))
        if self.recorder.record(eqn, inputs, scope, lookup):
            return []
        one = len(eqn.outvars) == 1
        return [arithmetic.compute(eqn.primitive.name, inputs)] if one else []

    def _walk_inner(
        self, inner: list[Any], inputs: list[Any], scope: Scope, results: int
    ) -> list[Any]:
        """Walks what an operation calls; its inputs are the operation's."""
        outputs: list[Any] = []
        for jaxpr in inner:
            expected = len(jaxpr.constvars) + len(jaxpr.invars)
            same = expected == len(inputs)
            outputs = self._walk(jaxpr, inputs if same else [], scope)
        matches = len(inner) == 1 and len(outputs) == results
        return outputs if matches else []

    def _run_scoped(self, eqn: Any, inputs: list[Any], scope: Scope) -> list[Any]:
        jaxpr = opened(eqn.params["jaxpr"])
        undone = eqn.params.get("ref_transforms") or ((),) * len(jaxpr.invars)
        refs, registers = [], scope.registers
        for variable, transforms in zip(jaxpr.invars, undone, strict=True):
            ref = Ref(object(), variable.aval)
            refs.append(ref)
            registers += self.recorder.allocate(ref, transforms, scope, registers)
        return self._walk(
            jaxpr,
            [*inputs, *refs],
            dataclasses.replace(scope, registers=registers),
        )

    def _run_state(self, eqn: Any, inputs: list[Any], scope: Scope) -> list[Any]:
        """Walks a scope whose refs begin with values, such as an accumulator's."""
        jaxpr = opened(eqn.params["jaxpr"])
        refs, registers = [], scope.registers
        for variable, value in zip(jaxpr.invars, inputs, strict=True):
            ref = value
            if not isinstance(value, Ref):
                ref = Ref(object(), variable.aval)
                registers += self.recorder.allocate(ref, (), scope, registers)
            refs.append(ref)
        self._walk(jaxpr, refs, dataclasses.replace(scope, registers=registers))
        return []

    def _cond(self, eqn: Any, inputs: list[Any], scope: Scope) -> list[Any]:
        which, *operands = inputs
        branches = eqn.params["branches"]
        taken: list[list[Any]] = []
        for index, branch in enumerate(branches):
            inside = self._within(which, index, len(branches), scope)
            if inside is not None:
                taken.append(self._walk(opened(branch), operands, inside))
        return taken[0] if len(taken) == 1 else []

    def _within(self, which: Any, index: int, count: int, scope: Scope) -> Scope | None:
        """Returns what holds in a branch; None if nothing comes there."""
        if not isinstance(which, Value):
            which = UNKNOWN
        if which.known is not None:
            return scope if min(max(which.known, 0), count - 1) == index else None
        if which.by_thread is not None:
            threads = frozenset(
                thread
                for thread in scope.threads
                if min(max(which.by_thread[thread], 0), count - 1) == index
            )
            return dataclasses.replace(scope, threads=threads) if threads else None
        return dataclasses.replace(scope, guards=_both(scope.guards, which.depends))

    def _scan(self, eqn: Any, inputs: list[Any], scope: Scope) -> list[Any]:
        if eqn.params["length"] == 0:
            return []
        if eqn.params["reverse"]:
            self.recorder.reversed_loops.append(scope.place)
        # What changes from step to step comes last.
        constants = len(inputs) - min(len(eqn.outvars), len(inputs))
        steady = _steady(inputs, constants)
        self._walk(opened(eqn.params["jaxpr"]), steady, scope)
        return []

    def _while(self, eqn: Any, inputs: list[Any], scope: Scope) -> list[Any]:
        params = eqn.params
        steady = _steady(inputs[params["cond_nconsts"] :], params["body_nconsts"])
        # Whether there is a first step is not known.
        inside = dataclasses.replace(scope, guards=None)
        self._walk(opened(params["body_jaxpr"]), steady, inside)
        return []

    def _axis_index(self, eqn: Any, _: list[Any], __: Scope) -> list[Any]:
        name = eqn.params["axis_name"]
        if name == self.mesh.thread_name and name is not None:
            return [values.thread_index(self.num_threads)]
        if name in (*self.mesh.grid_names, *self.mesh.cluster_names):
            return [values.axis(str(name))]
        return [UNKNOWN]


def _steady(inputs: list[Any], constants: int) -> list[Any]:
    """Returns the inputs of a loop's step: refs and constants stay the same."""
    return [
        value if index < constants or isinstance(value, Ref) else UNKNOWN
        for index, value in enumerate(inputs)
    ]


def _both(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
    return None if a is None or b is None else a | b


def _place(eqn: Any, module: Path, around: Place) -> Place:
    line = upstream.source_line(eqn.source_info, module)
    if line is None:
        return around
    return Place(line=line, text=describe_line(module, line))
