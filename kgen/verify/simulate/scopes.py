"""Inner jaxprs: `pl.run_state`, `pl.run_scoped` with accumulators, and `jax.jit`."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from kgen.verify.simulate import wgmma
from kgen.verify.simulate.pieces import Jax, refused


def interpret_run_state(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Runs a body on accumulators, or other refs, that start from values.

    Ends with a wait for all wgmmas, as on a GPU. Refs that the body closes over go in
    and out as they are.
    """
    jaxpr = eqn.params["jaxpr"]
    if not all(eqn.params["is_initialized"]):
        raise refused("pl.run_state with uninitialised refs")
    refs = []
    for var, value in zip(eqn.invars, invals, strict=True):
        if jax.is_ref(var):
            refs.append(value)
        else:
            token, key = _allocate(jax, interpreter, eqn, token, value)
            refs.append(key)
    token, _ = interpreter.interpret(jaxpr, token, *refs)
    outs = list(refs)
    for index, var in enumerate(eqn.invars):
        if jax.is_ref(var):
            continue
        token, outs[index] = jax.call(
            functools.partial(wgmma.load, wait_n=0),
            interpreter,
            token,
            source_info=eqn.source_info,
            result=eqn.outvars[index].aval,
            acc=refs[index],
        )
        token = _deallocate(jax, interpreter, eqn, token, refs[index])
    return token, outs


def interpret_run_scoped(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Runs a body on scratch.

    JAX's interpreter allocates accumulators only in a scope of their own. Where there
    are others beside them, the accumulators come first here.
    """
    jaxpr = eqn.params["jaxpr"]
    _refuse_semaphores(jax, jaxpr.invars)
    registers = jax.gpu_core.MemorySpace.REGS
    own = [var for var in jaxpr.invars if var.aval.memory_space is registers]
    others = [var for var in jaxpr.invars if var not in own]
    if not own or not others or eqn.params["collective_axes"]:
        outs = interpreter._interpret_run_scoped_p(eqn, token, lambda: invals)
        return outs[0], list(outs[1])
    keys = []
    for var in own:
        zeros = _zeros(var.aval)
        token, key = _allocate(jax, interpreter, eqn, token, zeros)
        keys.append(key)
    transforms = [
        each
        for var, each in zip(jaxpr.invars, eqn.params["ref_transforms"], strict=True)
        if var not in own
    ]
    body = Body(
        constvars=[*jaxpr.constvars, *own],
        invars=others,
        outvars=jaxpr.outvars,
        eqns=jaxpr.eqns,
    )
    inner = Equation(
        primitive=eqn.primitive,
        params={**eqn.params, "jaxpr": body, "ref_transforms": transforms},
        source_info=eqn.source_info,
    )
    token, result = interpreter._interpret_run_scoped_p(
        inner, token, lambda: [*invals, *keys]
    )
    for key in keys:
        token = _deallocate(jax, interpreter, eqn, token, key)
    return token, list(result)


def interpret_jit(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Interprets the body of a `jax.jit` inside of a kernel: it may have effects."""
    closed = eqn.params["jaxpr"]
    jaxpr = getattr(closed, "jaxpr", closed)
    token, outs = interpreter.interpret(jaxpr, token, *closed.consts, *invals)
    return token, list(outs)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Body:
    """What JAX's interpreter reads of a jaxpr."""

    constvars: list[Any]
    invars: list[Any]
    outvars: list[Any]
    eqns: list[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Equation:
    """What JAX's interpreter reads of a `run_scoped`."""

    primitive: Any
    params: dict[str, Any]
    source_info: Any


def _refuse_semaphores(jax: Jax, variables: Sequence[Any]) -> None:
    from jax import numpy as jnp

    for var in variables:
        dtype = getattr(var.aval, "dtype", None)
        if dtype is not None and jnp.issubdtype(dtype, jax.pallas_core.semaphore):
            raise refused("semaphores are not modelled")


def _zeros(aval: Any) -> Any:
    """Returns what an accumulator is before the first wgmma."""
    from jax import numpy as jnp

    return jnp.zeros(aval.shape, aval.dtype)


def _allocate(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, value: Any
) -> tuple[Any, Any]:
    """Allocates registers of the thread; returns the token and the allocation's key."""
    from jax import numpy as jnp

    space = jax.memory.get_memory_space_idx(jax.gpu_core.MemorySpace.REGS)
    token, request = jax.callbacks.call_make_allocation_request_array(
        token=token, compute_unit=interpreter.thread, memory_space_id=space
    )
    result: tuple[Any, Any] = jax.callbacks.call_allocate_buffer(
        token=token,
        mesh_location=interpreter.mesh_location,
        thread=interpreter.thread,
        allocation_request_as_array=request,
        value=jnp.asarray(value),
        source_info=eqn.source_info,
    )
    return result


def _deallocate(jax: Jax, interpreter: Any, eqn: Any, token: Any, key: Any) -> Any:
    return jax.callbacks.call_deallocate_buffer(
        token=token,
        mesh_location=interpreter.mesh_location,
        thread=interpreter.thread,
        allocation_key_as_array=key,
        source_info=eqn.source_info,
    )
