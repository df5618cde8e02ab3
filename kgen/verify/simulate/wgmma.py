"""Asynchronous wgmma for JAX's GPU interpreter, under race detection.

A wgmma only begins when it is issued: until it retires it may still read its operands
in SMEM. JAX's interpreter reads them at once and lets `wgmma_wait` do nothing, so that
a slot which is loaded anew too early goes unnoticed. Here every wgmma has a vector
clock of its own:

- It starts as a copy of the issuing thread's clock, with a position of its own that
  counts the wgmmas of that thread. With it both reads are checked.
- It waits in the thread's queue. wgmmas of one thread retire in order.
- `plgpu.wgmma` retires all but itself, `wgmma_wait(n)` all but the last n, and reading
  the accumulator all. Retiring merges the clock into the thread's: whoever the thread
  signals from then on knows that the operands were read.

The numbers are still computed at once. Everything private that this needs of JAX is
looked up in `install`, which says what is missing.
"""

import collections
import functools
import importlib
from collections.abc import Callable
from typing import Any

from kgen.verify.upstream import UnavailableError

_INTERPRET = "jax._src.pallas.mosaic_gpu.interpret"
TMA_THREADS = 32
"""Positions in a vector clock that TMA copies take turns in."""
WGMMA_THREADS = 32
"""Further positions: one for every warpgroup that runs at once."""
POSITIONS = TMA_THREADS + WGMMA_THREADS
# A warpgroup and its four warps have a position each in JAX's clocks.
_THREADS_PER_WARPGROUP = 5
# Where a shared memory keeps what is in flight, by thread.
_QUEUES = "_kgen_wgmmas_in_flight"


def install() -> None:
    """Gives the imported JAX asynchronous wgmmas; once per process.

    Raises:
      UnavailableError: a piece of JAX is not where it was in the versions kgen knows.
    """
    try:
        callbacks: Any = importlib.import_module(f"{_INTERPRET}.gpu_callbacks")
        memory: Any = importlib.import_module(f"{_INTERPRET}.shared_memory")
        interpret: Any = importlib.import_module(f"{_INTERPRET}.jaxpr_interpret")
        if hasattr(memory.GPUSharedMemory, _QUEUES):
            return
        shared = memory.GPUSharedMemory
        wgmma, deref = callbacks.wgmma, callbacks.wgmma_accumulator_deref
        _ = callbacks.get_races, callbacks._get_shared_memory, callbacks.commit_smem
        _ = callbacks._remove_noop_transforms, callbacks.HostAllocationKey.from_array
        primitives = _Primitives(interpret.gpu_primitives)
        interpreter = interpret.JaxprInterpreter
        commit = interpreter._interpret_commit_smem_p
        reset, next_tma = shared.reset_per_cluster_state, shared.get_next_tma_thread_id
    except (ImportError, AttributeError) as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    setattr(shared, _QUEUES, None)
    shared.reset_per_cluster_state = _with_queues(reset)
    shared.get_next_tma_thread_id = _within_tma_positions(next_tma)
    callbacks.wgmma = _asynchronous(wgmma, callbacks)
    callbacks.wgmma_accumulator_deref = _waiting(deref, callbacks)
    interpret.gpu_primitives = primitives
    interpreter._interpret_commit_smem_p = _or_wgmma_wait(
        commit, interpret, callbacks, primitives
    )


class _Primitives:
    """`gpu_primitives` for the interpreter's `match`, in which a wait gets a token.

    The interpreter passes over `wgmma_wait_p`. Here that name matches nothing, and
    `commit_smem_p` matches either: both are ordered effects without operands.
    """

    def __init__(self, real: Any) -> None:
        self.real = real
        self.wgmma_wait_p = object()
        self.commit_smem_p = _Either(real.commit_smem_p, real.wgmma_wait_p)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _Either:
    """Equals each of some values."""

    def __init__(self, *values: Any) -> None:
        self._values = values

    def __eq__(self, other: object) -> bool:
        return any(other is value for value in self._values)

    __hash__ = None  # type: ignore[assignment]


def _with_queues(reset: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(reset)
    def reset_per_cluster_state(self: Any) -> None:
        reset(self)
        setattr(self, _QUEUES, collections.defaultdict(collections.deque))

    return reset_per_cluster_state


def _within_tma_positions(next_tma: Callable[[Any], int]) -> Callable[[Any], int]:
    """Keeps TMA copies off the positions of wgmmas."""

    @functools.wraps(next_tma)
    def get_next_tma_thread_id(self: Any) -> int:
        first = len(self.all_concurrent_threads)
        return first + (next_tma(self) - first) % TMA_THREADS

    return get_next_tma_thread_id


def _asynchronous(wgmma: Callable[..., Any], callbacks: Any) -> Callable[..., Any]:
    @functools.wraps(wgmma)
    def asynchronous_wgmma(**arguments: Any) -> Any:
        shared = callbacks._get_shared_memory()
        if shared.detect_races:
            _begin(shared, callbacks, **arguments)
        return wgmma(**arguments)

    return asynchronous_wgmma


def _begin(
    shared: Any,
    callbacks: Any,
    *,
    thread: Any,
    a_allocation_key_as_array: Any,
    a_transforms: Any,
    b_allocation_key_as_array: Any,
    b_transforms: Any,
    source_info: Any = None,
    **_: Any,
) -> None:
    """Checks the reads of a wgmma and puts it into its thread's queue."""
    import jax

    _retire(shared, thread, 0)  # All earlier ones: the new one is alone in flight.
    clock = shared.incr_clock(thread)
    clock.inc(_position(shared, thread))
    with shared.lock:
        getattr(shared, _QUEUES)[thread].append(clock)
    operands = (
        (a_allocation_key_as_array, a_transforms),
        (b_allocation_key_as_array, b_transforms),
    )
    for key_as_array, transforms in operands:
        key = callbacks.HostAllocationKey.from_array(key_as_array)
        kept = callbacks._remove_noop_transforms(transforms)
        access = shared.access(key, jax.tree.map(int, kept))
        # Through the async proxy: what a thread stored must have been committed.
        read = clock.async_smem_clock.copy()
        callbacks.get_races().check_read(
            thread, read, key, access, source_info=source_info
        )


def _waiting(deref: Callable[..., Any], callbacks: Any) -> Callable[..., Any]:
    """Reading the accumulator waits for the wgmmas that add to it."""

    @functools.wraps(deref)
    def wgmma_accumulator_deref(**arguments: Any) -> Any:
        shared = callbacks._get_shared_memory()
        if shared.detect_races:
            _retire(shared, arguments["thread"], arguments.get("wait_n") or 0)
        return deref(**arguments)

    return wgmma_accumulator_deref


def _or_wgmma_wait(
    commit: Callable[..., Any], interpret: Any, callbacks: Any, primitives: _Primitives
) -> Callable[..., Any]:
    """Interprets a `commit_smem` as before, and a `wgmma_wait` as a wait."""

    def wait(*, token: Any, mesh_location: Any, thread: Any, n: int) -> Any:
        shared = callbacks._get_shared_memory()
        if shared.detect_races:
            _retire(shared, thread, n)
        return token

    def interpret_either(self: Any, eqn: Any, token: Any, get_invals: Any) -> Any:
        waits = eqn.primitive is primitives.real.wgmma_wait_p
        function = (
            functools.partial(wait, n=int(eqn.params["n"]))
            if waits
            else functools.partial(callbacks.commit_smem, source_info=eqn.source_info)
        )
        token = interpret.callback.io_callback(
            callbacks.fail_on_exception(function) if waits else function,
            callbacks.TOKEN_SHAPE_DTYPE,
            token=token,
            mesh_location=self.mesh_location,
            thread=self.thread,
        )
        return token, []

    return functools.wraps(commit)(interpret_either)


def _retire(shared: Any, thread: Any, n: int) -> None:
    """Retires all but the last `n` wgmmas of a thread."""
    with shared.lock:
        in_flight = getattr(shared, _QUEUES)[thread]
        while len(in_flight) > n:
            shared.clocks[thread].update(in_flight.popleft())


def _position(shared: Any, thread: Any) -> int:
    """Returns the position of a thread's wgmmas in the vector clocks."""
    index = shared.thread_to_vc_position(thread) // _THREADS_PER_WARPGROUP
    if index >= WGMMA_THREADS:
        raise NotImplementedError(f"more than {WGMMA_THREADS} warpgroups at once")
    return len(shared.all_concurrent_threads) + TMA_THREADS + int(index)
