"""Asynchronous wgmma.

A wgmma only begins when it is issued: until it retires it may still read its operands
in SMEM and write its accumulator. JAX's interpreter does all of it at once and lets
`wgmma_wait` do nothing, so that a slot which is loaded anew too early goes unnoticed.
Here every wgmma has a vector clock of its own:

- It starts as a copy of the issuing thread's clock, with a position of its own that
  counts the wgmmas of that thread. With it the reads of SMEM are checked, and the
  write of the accumulator.
- It waits in the thread's queue. wgmmas of one thread retire in order.
- `wgmma_wait(n)` retires all but the last n, and reading the accumulator all, or all
  but `wait_n`. Retiring merges the clock into the thread's: whoever the thread signals
  from then on knows that the operands were read.
- Issuing another retires none. JAX's documentation says that `plgpu.wgmma` waits for
  those before it; what it is lowered to (`wgmma.fence`, `wgmma.mma_async` and
  `wgmma.commit_group`) does not.

The numbers are still computed at once. An operand A in registers is a value: nobody
else can change it.
"""

import collections
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kgen.verify.simulate.pieces import Jax, Place, Site, refused

TMA_THREADS = 61
"""Positions in a vector clock that TMA copies take turns in. Copies that share one hide
each other's races; with a prime, slots of a ring come to share none."""
WGMMA_THREADS = 32
"""Further positions: one for every warpgroup that runs at once."""
POSITIONS = TMA_THREADS + WGMMA_THREADS
# A warpgroup and its four warps have a position each in JAX's clocks.
_THREADS_PER_WARPGROUP = 5
IN_FLIGHT = "_kgen_wgmmas_in_flight"
"""Where a shared memory keeps the clocks of what is in flight, by thread."""


def reset(shared: Any) -> None:
    """Forgets what was in flight in the cluster before."""
    setattr(shared, IN_FLIGHT, collections.defaultdict(collections.deque))


def within_tma_positions(next_tma: Any) -> Any:
    """Keeps TMA copies off the positions of wgmmas."""

    @functools.wraps(next_tma)
    def get_next_tma_thread_id(self: Any) -> int:
        first = len(self.all_concurrent_threads)
        position: int = first + (next_tma(self) - first) % TMA_THREADS
        return position

    return get_next_tma_thread_id


def interpret_wgmma(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Issues a wgmma."""
    if interpreter.num_concurrent_threads > WGMMA_THREADS:
        raise refused(f"more than {WGMMA_THREADS} warpgroups in a cluster")
    operands, leaves = invals[:3], list(invals[3:])
    resolved = []
    for name, var, value in zip(("acc", "a", "b"), eqn.invars, operands, strict=False):
        tree = eqn.params[f"{name}_transforms_tree"]
        count = 0 if tree is None else tree.num_leaves
        own, leaves = leaves[:count], leaves[count:]
        if jax.is_ref(var):
            resolved.append(jax.resolve(var, value, tree, own))
        else:
            resolved.append((value, None))
    (acc, acc_transforms), (a, a_transforms), (b, b_transforms) = resolved
    token = jax.call(
        functools.partial(_wgmma, a_in_registers=a_transforms is None),
        interpreter,
        token,
        source_info=eqn.source_info,
        acc=acc,
        acc_transforms=acc_transforms,
        a=a,
        a_transforms=() if a_transforms is None else a_transforms,
        b=b,
        b_transforms=b_transforms,
    )
    return token, []


def _wgmma(
    site: Site,
    *,
    acc: Any,
    acc_transforms: Any,
    a: Any,
    a_transforms: Any,
    b: Any,
    b_transforms: Any,
    a_in_registers: bool,
) -> None:
    sums = site.place(acc, acc_transforms)
    smem = [site.place(b, b_transforms)]
    if not a_in_registers:
        smem.insert(0, site.place(a, a_transforms))
    if site.detects_races:
        clock = _begin(site)
        for operand in smem:
            # Through the async proxy: what a thread stored must have been committed.
            site.check_read(clock.async_smem_clock.copy(), operand)
        site.check_write(clock.generic_clock.copy(), sums)
    factors = [np.asarray(a)] if a_in_registers else []
    factors += [_values(site, operand) for operand in smem]
    before, dtype = site.read(sums)
    product = np.matmul(*(factor.astype(dtype) for factor in factors))
    site.write(sums, before + product)


def _values(site: Site, operand: Place) -> Any:
    """Reads an operand in SMEM."""
    values, _ = site.read(operand)
    if values is None or values.shape != operand.access.shape:
        raise IndexError(f"the wgmma reads {operand}, which is beyond the end")
    return values


def _begin(site: Site) -> Any:
    """Puts a wgmma into its thread's queue and returns its clock."""
    shared, thread = site.shared, site.thread
    clock = shared.incr_clock(thread)
    warpgroup = shared.thread_to_vc_position(thread) // _THREADS_PER_WARPGROUP
    position = len(shared.all_concurrent_threads) + TMA_THREADS + int(warpgroup)
    with shared.lock:
        in_flight = getattr(shared, IN_FLIGHT)[thread]
        # The thread's clock counts those that retired, and these come before, too.
        for _ in range(len(in_flight) + 1):
            clock.inc(position)
        in_flight.append(clock)
    return clock


def retire(site: Site, n: int) -> None:
    """Retires all but the last `n` wgmmas of a thread."""
    shared = site.shared
    with shared.lock:
        in_flight = getattr(shared, IN_FLIGHT)[site.thread]
        while len(in_flight) > n:
            shared.clocks[site.thread].update(in_flight.popleft())


def interpret_wait(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Interprets `plgpu.wgmma_wait`."""
    del invals  # It has none.
    n = int(eqn.params["n"])

    def wait(site: Site) -> None:
        retire(site, n)

    return jax.call(wait, interpreter, token, source_info=eqn.source_info), []


def interpret_load(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Reads an accumulator; without `wait_n` it waits for no wgmma."""
    (acc,) = invals
    token, value = jax.call(
        functools.partial(load, wait_n=eqn.params["wait_n"]),
        interpreter,
        token,
        source_info=eqn.source_info,
        result=eqn.outvars[0].aval,
        acc=acc,
    )
    return token, [value]


def load(site: Site, *, acc: Any, wait_n: int | None) -> Any:
    """Returns an accumulator; a race if a wgmma that adds to it is in flight."""
    place = site.place(acc, ())
    if site.detects_races:
        if wait_n is not None:
            retire(site, wait_n)
        site.check_read(site.shared.incr_clock(site.thread).generic_clock, place)
    return site.read(place)[0]


def interpret_store(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Writes an accumulator; a race if a wgmma that adds to it is in flight."""
    acc, value = invals

    def store(site: Site, *, acc: Any, value: Any) -> None:
        place = site.place(acc, ())
        if site.detects_races:
            clock = site.shared.incr_clock(site.thread)
            site.check_write(clock.generic_clock, place)
        site.write(place, np.asarray(value))

    token = jax.call(
        store, interpreter, token, source_info=eqn.source_info, acc=acc, value=value
    )
    # Its result is of no use as long as the accumulator is a ref.
    return token, [value]
