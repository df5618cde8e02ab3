"""TMA copies from GMEM to SMEM: predicates, fills beyond the end, multicast.

A copy with `collective_axes` is issued by every CTA along these axes. Each of them
loads one part and writes it into the SMEM of all; a CTA's barrier sees the copy once
every part has arrived. So a CTA's slot is written on behalf of its peers, too: they
must know that the slot is free. Here the last CTA to issue the copy carries it out for
all, and every part is checked with the clock of the CTA that loads it.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kgen.verify.simulate import phases, units
from kgen.verify.simulate.pieces import Jax, Place, Site, refused
from kgen.verify.upstream import jax_version

COLLECTIVES = "_kgen_collective_copies"
"""Where a shared memory keeps the collective copies that some CTA has yet to issue."""
_FILLS = {None: "zeros", "ZEROS": "zeros", "UNDEFINED": "undefined"}
_IN_BOUNDS = "PROMISE_IN_BOUNDS"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Issue:
    """A copy as one CTA issued it.

    Attributes:
      site: Where it was issued.
      source: What is read of GMEM.
      target: What is written of the CTA's own SMEM.
      barrier: Key of the CTA's own barrier.
      clock: The issuing thread's clock with the copy's own position; None without race
        detection.
      position: That position.
      fill: `zeros` or `undefined` beyond the end, or an error.
    """

    site: Site
    source: Place
    target: Place
    barrier: Any
    clock: Any
    position: int
    fill: str


def reset(shared: Any) -> None:
    """Forgets the collective copies of the cluster before."""
    setattr(shared, COLLECTIVES, {})


def interpret_load(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Interprets `plgpu.copy_gmem_to_smem`."""
    params = eqn.params
    if not params["has_barrier"]:
        raise refused("copy_gmem_to_smem without a barrier is not for Hopper")
    if params["leader_tracked"] is not None:
        raise refused("leader_tracked copies are not modelled")
    source, target, barrier, *leaves = invals
    predicate = leaves.pop() if params["has_user_predicate"] else None
    source_tree = params["src_transforms_treedef"]
    target_tree = params["dst_transforms_treedef"]
    split, end = source_tree.num_leaves, target_tree.num_leaves
    source, source_transforms = jax.resolve(
        eqn.invars[0], source, source_tree, leaves[:split]
    )
    target, target_transforms = jax.resolve(
        eqn.invars[1], target, target_tree, leaves[split : split + end]
    )
    barrier = jax.interpret._get_barrier_allocation_key_from_inval(
        barrier, params["barrier_transforms_treedef"], leaves[split + end :]
    )

    def issue(token: Any) -> Any:
        return jax.call(
            functools.partial(
                _issue,
                fill=_fill(params["oob_mode"]),
                cluster=interpreter.cluster_dims,
                tiles=units.tiling(target_transforms),
                collective=_collective(interpreter, params["collective_axes"]),
            ),
            interpreter,
            token,
            source_info=eqn.source_info,
            source=source,
            source_transforms=source_transforms,
            target=target,
            target_transforms=target_transforms,
            barrier=barrier,
        )

    def skip(token: Any) -> Any:
        if not _arrives_though_skipped():
            return token
        return jax.callbacks.call_barrier_arrive(
            token,
            interpreter.mesh_location,
            interpreter.thread,
            barrier,
            eqn.source_info,
        )

    return branch(predicate, issue, skip, token), []


def branch(predicate: Any, then: Any, otherwise: Any, token: Any) -> Any:
    """Returns the token after `then`, or after `otherwise` if there is a predicate."""
    from jax import lax
    from jax import numpy as jnp

    if predicate is None:
        return then(token)
    return lax.cond(jnp.asarray(predicate, bool), then, otherwise, token)


def _arrives_though_skipped() -> bool:
    """Whether the barrier sees an arrival for a copy whose predicate is false."""
    return jax_version().startswith("0.11.")


def _fill(mode: Any) -> str:
    name: str | None = None if mode is None else mode.name
    if name == _IN_BOUNDS:
        return _IN_BOUNDS
    if name not in _FILLS:
        raise refused(f"OOBFillMode.{name} is not modelled")
    return _FILLS[name]


def _collective(interpreter: Any, axes: Any) -> tuple[bool, ...]:
    """Returns for every axis of the cluster whether the copy is collective along it."""
    if not axes:
        return ()
    names: list[Any] = []
    for axis in axes:
        names.extend(axis if isinstance(axis, tuple) else (axis,))
    cluster = tuple(interpreter.mesh.cluster_names) if interpreter.mesh else ()
    unknown = set(names) - set(cluster)
    if unknown:
        raise refused(f"a copy along {unknown} is not along an axis of the cluster")
    return tuple(name in names for name in cluster)


def _issue(
    site: Site,
    *,
    source: Any,
    source_transforms: Any,
    target: Any,
    target_transforms: Any,
    barrier: Any,
    fill: str,
    cluster: tuple[int, ...],
    collective: tuple[bool, ...],
    tiles: tuple[int, ...],
) -> None:
    shared = site.shared
    position = shared.get_next_tma_thread_id()
    issue = Issue(
        site=site,
        source=site.place(source, source_transforms),
        target=site.place(target, target_transforms),
        barrier=site.jax.callbacks.HostAllocationKey.from_array(barrier),
        clock=shared.incr_clock(site.thread) if site.detects_races else None,
        position=position,
        fill=fill,
    )
    shape = tuple(shared.buffer_shape_and_dtype(issue.source.key).shape)
    units.check("the copy from GMEM", issue.source.access, shape, tiles)
    peers = _peers(site, cluster, collective)
    if len(peers) == 1:
        _carry_out([issue])
        return
    with shared.lock:
        issues = joined(getattr(shared, COLLECTIVES), issue, peers)
    if issues:
        _carry_out(issues)


def _peers(
    site: Site, cluster: tuple[int, ...], collective: tuple[bool, ...]
) -> tuple[int, ...]:
    """Returns the blocks of the cluster that take part in a copy of this one."""
    own = site.thread.block_id
    if not any(collective):
        return (own,)

    def fixed(block: int) -> tuple[int, ...]:
        coordinates = site.jax.ranges.get_indices(cluster, block)
        pairs = zip(coordinates, collective, strict=True)
        return tuple(int(at) for at, along in pairs if not along)

    blocks = range(math.prod(cluster))
    return tuple(block for block in blocks if fixed(block) == fixed(own))


def joined(
    pending: dict[Any, list[dict[int, Issue]]], issue: Issue, peers: tuple[int, ...]
) -> list[Issue]:
    """Adds a CTA's issue of a copy to those of its peers: the n-th to their n-th.

    Returns:
      All issues of the copy, in the order of `peers`, to the last of the peers alone;
      nothing to those before it. Under a lock: only one of them may carry it out.
    """
    block = issue.site.thread.block_id
    everywhere = (
        peers,
        dataclasses.replace(issue.target.key, block_id=0),
        str(issue.target.access),
        dataclasses.replace(issue.barrier, block_id=0),
    )
    copies = pending.setdefault(everywhere, [])
    for issues in copies:
        if block not in issues:
            break
    else:
        issues = {}
        copies.append(issues)
    issues[block] = issue
    if len(issues) < len(peers):
        return []
    copies.remove(issues)
    return [issues[peer] for peer in peers]


def _carry_out(issues: list[Issue]) -> None:
    """Moves every part to everybody and arrives at everybody's barrier."""
    if len({str(issue.source) for issue in issues}) > 1:
        raise ValueError("the CTAs of a collective copy read different parts of GMEM")
    for index, issue in enumerate(issues):
        axis = _axis(issue.target.access.shape, len(issues))
        _move(issue, issues, functools.partial(_part, axis=axis, index=index))
    for receiver in issues:
        clock = receiver.clock
        if clock is not None:
            clock = clock.copy()
            for issue in issues:
                clock.update(issue.clock)
        barrier = receiver.site.shared.get_barrier(receiver.barrier)
        phases.begin_load(barrier)
        barrier.arrive(receiver.site.thread, clock, receiver.site.logging_info)


def _move(issue: Issue, receivers: list[Issue], part: Any) -> None:
    """Loads the part that falls to one CTA into the SMEM of all."""
    site, count = issue.site, len(receivers)
    source = Place(issue.source.key, part(site, issue.source.access, count=count))
    if site.detects_races:
        issue.clock.inc(issue.position)
        site.check_read(issue.clock.generic_clock.copy(), source)
    values = _filled(issue, source)
    if site.detects_races:
        issue.clock.inc(issue.position)
    for receiver in receivers:
        access = part(site, receiver.target.access, count=count)
        target = Place(receiver.target.key, access)
        if site.detects_races:
            site.check_write(issue.clock.async_smem_clock.copy(), target)
        site.write(target, values)


def _filled(issue: Issue, source: Place) -> Any:
    """Reads from GMEM; what is beyond the end depends on the mode of the copy."""
    values, dtype = issue.site.read(source)
    shape = source.access.shape
    if values is not None and values.shape == shape:
        return values
    if issue.fill == _IN_BOUNDS:
        raise IndexError(
            f"the copy reads {source}, which is beyond the end, though it"
            " promises to stay in bounds (OOBFillMode.PROMISE_IN_BOUNDS)"
        )
    fill = 0
    if issue.fill == "undefined":
        fill = issue.site.jax.ranges.get_uninitialized_value(dtype, "nan")
    filled = np.full(shape, fill, dtype)
    if values is not None:
        filled[tuple(slice(size) for size in values.shape)] = values
    return filled


def _axis(shape: tuple[int, ...], count: int) -> int:
    """Returns the axis that is dealt out among so many CTAs."""
    for axis, size in enumerate(shape):
        if size % count == 0:
            return axis
    raise refused(f"a copy of {list(shape)} by {count} CTAs is not modelled")


def _part(site: Site, access: Any, *, axis: int, index: int, count: int) -> Any:
    """Returns what one of `count` CTAs moves, along an axis of what is accessed."""
    if count == 1:
        return access
    ranges = list(access.range)
    kept = [at for at, each in enumerate(ranges) if isinstance(each, slice)]
    order = access.permutation or range(len(kept))
    at = kept[order[axis]]
    whole = ranges[at]
    size = access.shape[axis] // count
    step = whole.step or 1
    start = whole.start + index * size * step
    ranges[at] = slice(start, start + size * step, whole.step)
    return site.jax.ranges.Access(tuple(ranges), access.permutation)
