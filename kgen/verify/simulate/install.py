"""Puts the simulator into JAX's GPU interpreter.

JAX's interpreter goes through the equations of a kernel and knows by a `match` what to
do. Here a table of handlers is asked first; what is not in it goes to JAX one equation
at a time. Accumulators are checked for races, too, though JAX numbers registers anew
in every cluster: the race detector must tell clusters apart, as that of
`kgen.verify.simulate.records` does.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from kgen.verify.simulate import (
    loads,
    phases,
    reductions,
    refusals,
    scopes,
    stores,
    wgmma,
)
from kgen.verify.simulate.patches import PATCHES
from kgen.verify.simulate.pieces import Handler, Jax, load
from kgen.verify.upstream import UnavailableError

_HANDLERS: dict[str, Callable[..., Any]] = {
    "gpu.wgmma_ref_p": wgmma.interpret_wgmma,
    "gpu.wgmma_wait_p": wgmma.interpret_wait,
    "gpu.wgmma_accumulator_deref_p": wgmma.interpret_load,
    "gpu.wgmma_accumulator_store_p": wgmma.interpret_store,
    "gpu.copy_gmem_to_smem_p": loads.interpret_load,
    "gpu.copy_smem_to_gmem_p": stores.interpret_copy,
    "gpu.commit_group_p": stores.interpret_commit,
    "gpu.atomic_store_p": stores.interpret_atomic,
    "discharge.run_state_p": scopes.interpret_run_state,
    "pallas.run_scoped_p": scopes.interpret_run_scoped,
    "pallas.delay_p": refusals.pass_over,
    "pjit.jit_p": scopes.interpret_jit,
}
# Not in every version; a kernel cannot use what its JAX lacks.
_OPTIONAL: dict[str, Callable[..., Any]] = {
    **{
        name: functools.partial(reductions.interpret_reduction, function=function)
        for name, function in reductions.FUNCTIONS.items()
    },
    **{
        name: functools.partial(refusals.interpret_refused, called=called)
        for name, called in refusals.REFUSED.items()
    },
}
_INSTALLED = "_kgen_simulator"


def install() -> None:
    """Gives the imported JAX the simulator; once per process.

    Raises:
      UnavailableError: a piece of JAX is not where it was in the versions kgen knows.
    """
    jax = load()
    interpreter, shared = jax.interpret.JaxprInterpreter, jax.memory.GPUSharedMemory
    if hasattr(shared, _INSTALLED):
        return
    try:
        table = dict(_table(jax))
        dispatching = _dispatching(interpreter.interpret, table, jax)
        _ = interpreter._interpret_run_scoped_p, interpreter.num_concurrent_threads
        reset = _resetting(shared.reset_per_cluster_state)
        next_tma = wgmma.within_tma_positions(shared.get_next_tma_thread_id)
        finished = stores.with_nothing_uncommitted(shared.kernel_thread_finished)
        barrier = jax.memory.Barrier
        deallocate = barrier.deallocate
        if phases.objects_to_unseen_phases(jax):
            deallocate = phases.tolerating_unseen_phases(deallocate)
        deallocate = phases.objecting_to_unseen_loads(deallocate)
        wait = phases.noting_waits(barrier.wait)
        arrive = phases.ordered_after_waits(barrier.arrive)
    except AttributeError as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    setattr(shared, _INSTALLED, True)
    PATCHES.replace(interpreter, "interpret", dispatching)
    PATCHES.replace(shared, "reset_per_cluster_state", reset)
    PATCHES.replace(shared, "get_next_tma_thread_id", next_tma)
    PATCHES.replace(shared, "kernel_thread_finished", finished)
    PATCHES.replace(barrier, "deallocate", deallocate)
    PATCHES.replace(barrier, "wait", wait)
    PATCHES.replace(barrier, "arrive", arrive)


def _table(jax: Jax) -> Iterator[tuple[Any, Handler]]:
    """Yields primitives and their handlers."""
    for name, handler in (_HANDLERS | _OPTIONAL).items():
        module, attribute = name.split(".")
        if name in _OPTIONAL and not hasattr(getattr(jax, module), attribute):
            continue
        primitive = getattr(getattr(jax, module), attribute)
        yield primitive, functools.partial(handler, jax)


def _dispatching(
    interpret: Callable[..., Any], table: dict[Any, Handler], jax: Jax
) -> Callable[..., Any]:
    @functools.wraps(interpret)
    def interpret_with_table(self: Any, jaxpr: Any, token: Any, *args: Any) -> Any:
        variables = [*jaxpr.constvars, *jaxpr.invars]
        env = jax.ranges.JaxprEnv(vars=variables, values=args)
        for eqn in jaxpr.eqns:
            handler = table.get(eqn.primitive)
            if handler is None:
                body = _alone(eqn, jax)
                values = env.read_many(body.invars)
                token, outs = interpret(self, body, token, *values)
            else:
                source = eqn.source_info
                with jax.sources.user_context(
                    source.traceback, name_stack=source.name_stack
                ):
                    values = env.read_many(eqn.invars)
                    token, outs = handler(self, eqn, token, values)
            env.write_many(eqn.outvars, outs)
        return token, env.read_many(jaxpr.outvars)

    return interpret_with_table


def _alone(eqn: Any, jax: Jax) -> scopes.Body:
    """Returns a jaxpr of one equation."""
    variables = [v for v in eqn.invars if not isinstance(v, jax.core.Literal)]
    return scopes.Body(constvars=[], invars=variables, outvars=eqn.outvars, eqns=[eqn])


def _resetting(reset: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(reset)
    def reset_per_cluster_state(self: Any) -> None:
        reset(self)
        for part in (wgmma, loads, stores):
            part.reset(self)

    return reset_per_cluster_state
