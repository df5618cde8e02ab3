"""TMA copies from SMEM to GMEM: predicates, groups, reductions; atomics of threads.

`plgpu.wait_smem_to_gmem(n)` waits for groups of copies: all that were issued since the
last commit are one. JAX's own wait is right as soon as it finds one pair of clocks per
group, so copies collect here until they are committed.
"""

import collections
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kgen.verify.simulate import units
from kgen.verify.simulate.clocks import AtomicClock
from kgen.verify.simulate.loads import branch
from kgen.verify.simulate.pieces import Jax, Place, Site, refused

UNCOMMITTED = "_kgen_uncommitted_copies"
"""Where a shared memory keeps (read, write) clocks of copies in no group, by thread."""
_ATOMIC = threading.Lock()


def _increase(old: Any, value: Any) -> Any:
    """Counts up to `value` and begins again at 0, as `atom.inc`."""
    return np.where(old >= value, 0, old + 1)


def _decrease(old: Any, value: Any) -> Any:
    """Counts down to 0 and begins again at `value`, as `atom.dec`."""
    return np.where((old == 0) | (old > value), value, old - 1)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": _increase,
    "dec": _decrease,
}
_UNSIGNED = ("umin", "umax", "inc", "dec")


def reset(shared: Any) -> None:
    """Forgets the copies of the cluster before."""
    setattr(shared, UNCOMMITTED, collections.defaultdict(list))


def interpret_copy(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Interprets `plgpu.copy_smem_to_gmem`; the group is committed in any case."""
    params = eqn.params
    source, target, *leaves = invals
    predicate = leaves.pop() if params["has_user_predicate"] else None
    split = params["src_transforms_treedef"].num_leaves
    source, source_transforms = jax.resolve(
        eqn.invars[0], source, params["src_transforms_treedef"], leaves[:split]
    )
    target, target_transforms = jax.resolve(
        eqn.invars[1], target, params["dst_transforms_treedef"], leaves[split:]
    )
    reduction = params["reduction_op"]
    operation = None if reduction is None else _operation(reduction)

    def issue(token: Any) -> Any:
        return jax.call(
            functools.partial(
                _copy, operation=operation, tiles=units.tiling(source_transforms)
            ),
            interpreter,
            token,
            source_info=eqn.source_info,
            source=source,
            source_transforms=source_transforms,
            target=target,
            target_transforms=target_transforms,
        )

    token = branch(predicate, issue, lambda token: token, token)
    if params["commit_group"]:
        token = jax.call(commit, interpreter, token, source_info=eqn.source_info)
    return token, []


def interpret_commit(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Interprets `plgpu.commit_smem_to_gmem_group`."""
    del invals  # It has none.
    return jax.call(commit, interpreter, token, source_info=eqn.source_info), []


def commit(site: Site) -> None:
    """Makes a group of what is in none; a group may be empty."""
    if not site.detects_races:
        return
    shared, thread = site.shared, site.thread
    # The thread's own clock stands for an empty group.
    reads, writes = shared.get_clock(thread), shared.get_clock(thread)
    for read, write in getattr(shared, UNCOMMITTED).pop(thread, ()):
        reads.update(read)
        writes.update(write)
    shared.add_copy_smem_to_gmem_clocks(thread, reads, writes)


def with_nothing_uncommitted(finished: Any) -> Any:
    """Wraps the end of a thread: what is in no group cannot have been waited for."""

    @functools.wraps(finished)
    def kernel_thread_finished(self: Any, thread: Any) -> None:
        if getattr(self, UNCOMMITTED).get(thread):
            raise ValueError(
                "copies from SMEM to GMEM are in no group when the kernel ends:"
                " nothing waits for them (commit_smem_to_gmem_group,"
                " wait_smem_to_gmem)"
            )
        finished(self, thread)

    return kernel_thread_finished


def _operation(name: str) -> Callable[[Any, Any], Any]:
    """Returns what a reduction does with the old and the new values."""
    # The first letter of smin, umin, smax and umax tells how integers are compared.
    function = _OPERATIONS.get(name) or _OPERATIONS.get(name[1:])
    if function is None:
        raise refused(f"the reduction {name!r} is not modelled")

    def reduce(old: Any, value: Any) -> Any:
        if name not in _UNSIGNED:
            return function(old, value).astype(old.dtype)
        unsigned = np.dtype(f"u{old.dtype.itemsize}")
        result = function(old.view(unsigned), value.view(unsigned))
        return result.astype(unsigned).view(old.dtype)

    return reduce


def _copy(
    site: Site,
    *,
    source: Any,
    source_transforms: Any,
    target: Any,
    target_transforms: Any,
    operation: Callable[[Any, Any], Any] | None,
    tiles: tuple[int, ...],
) -> None:
    shared = site.shared
    smem = site.place(source, source_transforms)
    gmem = site.place(target, target_transforms)
    shape = tuple(shared.buffer_shape_and_dtype(gmem.key).shape)
    units.check("the copy to GMEM", gmem.access, shape, tiles)
    position = shared.get_next_tma_thread_id()
    clock = shared.incr_clock(site.thread) if site.detects_races else None
    read = None
    if clock is not None:
        clock.inc(position)
        read = clock.copy()
        site.check_read(clock.async_smem_clock.copy(), smem)
    values, _ = site.read(smem)
    if values is None or values.shape != smem.access.shape:
        raise IndexError(f"the copy reads {smem}, which is beyond the end")
    if clock is not None:
        clock.inc(position)
        written = clock.async_smem_clock.copy()
        site.check_write(AtomicClock(written) if operation else written, gmem)
    clipped = _clipped(site, gmem)
    if clipped is not None:
        inside = values[tuple(slice(size) for size in clipped.access.shape)]
        _store(site, clipped, inside, operation)
    if clock is not None:
        getattr(shared, UNCOMMITTED)[site.thread].append((read, clock))


def _clipped(site: Site, place: Place) -> Place | None:
    """Returns what of a place is in bounds: TMA drops the rest."""
    if place.access.permutation is not None:
        raise refused("a transposed target of copy_smem_to_gmem is not modelled")
    shape = tuple(site.shared.buffer_shape_and_dtype(place.key).shape)
    inside = site.jax.ranges.clip_range_to_shape(place.access.range, shape)
    return None if inside is None else Place(place.key, site.jax.ranges.Access(inside))


def _store(site: Site, place: Place, values: Any, operation: Any) -> None:
    if operation is None:
        site.write(place, values)
        return
    with _ATOMIC:
        old, _ = site.read(place)
        site.write(place, operation(old, values))


def interpret_atomic(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Interprets `plgpu.atomic_add` and its kin."""
    import jax as public

    tree = eqn.params["args_tree"]
    ref, transforms, value = public.tree.unflatten(tree, invals)
    key, _ = jax.interpret.resolve_ref(eqn.invars[0].aval, ref, transforms)
    jax.check_transforms(transforms)
    operation = _operation(eqn.params["atomic_type"].value)
    token = jax.call(
        functools.partial(_atomic, operation=operation),
        interpreter,
        token,
        source_info=eqn.source_info,
        ref=key,
        transforms=tuple(transforms),
        value=value,
    )
    return token, []


def _atomic(
    site: Site, *, ref: Any, transforms: Any, value: Any, operation: Any
) -> None:
    place = site.place(ref, transforms)
    if site.detects_races:
        clock = site.shared.incr_clock(site.thread)
        site.check_write(AtomicClock(clock.generic_clock), place)
    _store(site, place, np.asarray(value), operation)
