"""Gives each callback of JAX's GPU interpreter its `Operation`, while it is traced.

The interpreter makes a callback of every operation that touches memory or a barrier.
All of them pass one function, and that is replaced here. What is allocated is named by
the parameters that the kernel gave it.
"""

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from kgen.verify.simulate import operations, source
from kgen.verify.simulate.operations import ALLOCATIONS, INTERPRET, Operation, Position
from kgen.verify.simulate.patches import PATCHES
from kgen.verify.upstream import UnavailableError

_INSTALLED = "_kgen_operations"


class _Names(threading.local):
    """Names for what the running thread's trace allocates next, scope by scope."""

    def __init__(self) -> None:
        self.scopes: list[Iterator[str]] = []


_names_of = _Names()


def install() -> None:
    """Watches the operations of the imported JAX's interpreter; once per process.

    Raises:
      UnavailableError: a piece of JAX is not where it was in the versions kgen knows.
    """
    try:
        interpret: Any = importlib.import_module(f"{INTERPRET}.jaxpr_interpret")
        callbacks: Any = importlib.import_module(f"{INTERPRET}.gpu_callbacks")
        call: Any = importlib.import_module(f"{INTERPRET}.interpret_pallas_call")
        memory: Any = importlib.import_module(f"{INTERPRET}.shared_memory")
        sources: Any = importlib.import_module("jax._src.source_info_util")
        if hasattr(callbacks, _INSTALLED):
            return
        _ = sources.user_frames, memory.MeshLocation
        threads = (memory.Warpgroup, memory.Warp)
        watched = _Callbacks(callbacks.callback, threads, memory.MeshLocation)
        interpreter = interpret.JaxprInterpreter
        scoped = interpreter._interpret_run_scoped_p
        run, members = call.interpret_pallas_call, interpret.union_members
        for module in (interpret, callbacks, call):
            _ = module.callback.io_callback
        for name in ALLOCATIONS:
            getattr(callbacks, name)
    except (ImportError, AttributeError) as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    setattr(callbacks, _INSTALLED, True)
    for module in (interpret, callbacks, call):
        PATCHES.replace(module, "callback", watched)
    named = _with_names(scoped, members)
    PATCHES.replace(interpreter, "_interpret_run_scoped_p", named)
    PATCHES.replace(call, "interpret_pallas_call", _with_parameters(run))


class _Callbacks:
    """JAX's `callback` module, with each callback told to whom it may concern."""

    def __init__(self, real: Any, threads: tuple[type, ...], location: type) -> None:
        self._real = real
        self._threads = threads
        self._location = location

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def io_callback(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Makes a callback of `function`; called while the kernel is traced."""
        operation = _operation(function)

        def watched(*values: Any, **named: Any) -> Any:
            arguments = (*values, *named.values())
            position = Position(
                operation=operation,
                thread=_first(self._threads, arguments),
                location=_first((self._location,), arguments),
            )
            with operations.at(position):
                result = function(*values, **named)
            operations.tell(position, result)
            return result

        return self._real.io_callback(watched, *args, **kwargs)


def _operation(function: Any) -> Operation:
    """Returns what a callback does, while it is traced."""
    while isinstance(function, functools.partial):
        function = function.func
    name = function.__name__
    label = ""
    if name in ALLOCATIONS and _names_of.scopes:
        label = next(_names_of.scopes[-1], "")
    eqns = list(_interpreted())
    return Operation(
        callback=name,
        primitive=eqns[0].primitive.name if eqns else "",
        params=dict(eqns[0].params) if eqns else {},
        traces=tuple(eqn.source_info.traceback for eqn in eqns),
        label=label,
    )


def _interpreted() -> Iterator[Any]:
    """Yields the equations that are interpreted right now, the innermost first.

    They are on the stack: every part of the interpreter calls its equation `eqn`.
    """
    frame: FrameType | None = sys._getframe(1)
    seen = None
    while frame is not None:
        if "eqn" in frame.f_code.co_varnames:
            eqn = frame.f_locals.get("eqn")
            if eqn is not seen and hasattr(eqn, "source_info"):
                yield eqn
                seen = eqn
        frame = frame.f_back


def _with_names(scoped: Callable[..., Any], members: Any) -> Callable[..., Any]:
    """Names what a `run_scoped` allocates."""

    @functools.wraps(scoped)
    def interpret_run_scoped(self: Any, eqn: Any, *args: Any, **kwargs: Any) -> Any:
        _names_of.scopes.append(iter(_scope_labels(eqn, members)))
        try:
            return scoped(self, eqn, *args, **kwargs)
        finally:
            _names_of.scopes.pop()

    return interpret_run_scoped


def _scope_labels(eqn: Any, members: Any) -> list[str]:
    """Returns the names of what a `run_scoped` allocates, in that order."""
    # Of its parameters, the scope at hand may have been given some only.
    scopes = [e for e in (eqn, *_interpreted()) if e.primitive is eqn.primitive]
    names = {
        id(variable): name
        for scope in scopes
        for variable, name in zip(
            scope.params["jaxpr"].invars, _names(scope.params["jaxpr"]), strict=True
        )
        if name
    }
    labels = []
    for variable in eqn.params["jaxpr"].invars:
        union = type(variable.aval).__name__ == "AbstractRefUnion"
        count = len(members(variable.aval)) if union else 1
        labels += [names.get(id(variable), "")] * count
    return labels


def _with_parameters(run: Callable[..., Any]) -> Callable[..., Any]:
    """Names the operands and results of a kernel."""

    @functools.wraps(run)
    def interpret_pallas_call(*args: Any, **kwargs: Any) -> Any:
        jaxpr, mapping = kwargs["jaxpr"], kwargs["grid_mapping"]
        aliased = {result for _, result in kwargs.get("input_output_aliases", ())}
        names = source.parameters(_names(jaxpr), _body(jaxpr))
        inputs = mapping.num_inputs
        labels = [
            name
            for index, name in enumerate(names)
            if index < inputs or index - inputs not in aliased
        ]
        _names_of.scopes.append(iter(labels))
        try:
            return run(*args, **kwargs)
        finally:
            _names_of.scopes.pop()

    return interpret_pallas_call


def _names(jaxpr: Any) -> list[str]:
    """Returns the names of a jaxpr's parameters, as far as JAX knows them."""
    debug_info = getattr(jaxpr, "debug_info", None)
    names = getattr(debug_info, "arg_names", None) or ()
    padding = [""] * (len(jaxpr.invars) - len(names))
    return [*(name or "" for name in names), *padding]


def _body(jaxpr: Any) -> str:
    """Returns `name at file:line` of the function that the kernel was written as."""
    scopes = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "run_scoped"]
    inner = scopes[0].params["jaxpr"] if scopes else jaxpr
    return str(inner.debug_info.func_src_info or "")


def _first(types: tuple[type, ...], values: tuple[Any, ...]) -> Any:
    return next((value for value in values if isinstance(value, types)), None)
