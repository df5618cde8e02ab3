"""What to change about a data race."""

import re
from collections.abc import Sequence
from pathlib import Path

from kgen.verify.explain import describe_line
from kgen.verify.simulate import source
from kgen.verify.simulate.accesses import LOAD, READ, STORE, WGMMA, WRITE, Access, Race

MOST_LINES = 4


def race_hint(race: Race, module: Path, *, operands: str) -> str:
    """Returns what to change in a module so that a race goes away.

    Args:
      race: The race.
      module: The module's file.
      operands: The operands whose tiles it is about, such as `a and b`.
    """
    first, second = race.first, race.second
    if first.position.cta != second.position.cta:
        return _between_ctas(first, second)
    match race.buffer.space:
        case "GMEM":
            return _in_gmem(first, second)
        case "SMEM":
            if (first.agent, second.agent) == (WGMMA, LOAD) and race.buffer.of_pipeline:
                return _released_early(module, operands)
            return _in_smem(first, second)
    return (
        "a wgmma that adds to the accumulator is in flight: wait for it with"
        " plgpu.wgmma_wait(0) or read the accumulator as acc[...]"
    )


def _between_ctas(first: Access, second: Access) -> str:
    if first.kind == second.kind == WRITE:
        return (
            "two CTAs write the same place, in no order: the index must contain every"
            " axis of the grid, and each CTA its own part of the result"
        )
    return (
        "CTAs run in no order: what one of them writes to GMEM another one can read"
        " only in a kernel that is launched later"
    )


def _in_gmem(first: Access, second: Access) -> str:
    if first.position.thread != second.position.thread:
        if first.kind == second.kind == WRITE:
            return (
                "two warpgroups write the same place: give each its own part, or let"
                " one of them store all"
            )
        return (
            "wait for the store with plgpu.wait_smem_to_gmem(0), then let the other"
            " warpgroup know with plgpu.barrier_arrive and plgpu.barrier_wait"
        )
    if STORE in (first.agent, second.agent):
        return (
            "a store to GMEM is done only after plgpu.wait_smem_to_gmem(0); with"
            " wait_read_only=True it has but read its SMEM"
        )
    return "nothing orders the two: put a barrier between them"


def _in_smem(first: Access, second: Access) -> str:
    same = first.position.thread == second.position.thread
    match first.agent, second.agent:
        case _, "load" if first.kind == READ and first.step is None:
            hint = _loaded_late(same=same)
        case "wgmma", "load":
            hint = _loaded_anew("the wgmma (plgpu.wgmma_wait(0))", same=same)
        case "wgmma", _:
            hint = (
                "a wgmma still reads its SMEM: wait with plgpu.wgmma_wait(0) before"
                " that is written again"
            )
        case "load", "load":
            hint = (
                "two loads into the same place are in flight: before the second one,"
                " wait (plgpu.barrier_wait) until the first has been used"
            )
        case "load", _ if second.kind == READ:
            hint = _loaded_late(same=same)
        case "load", _:
            hint = "wait for the load with plgpu.barrier_wait before SMEM is written"
        case "thread", ("store" | "wgmma") if first.kind == WRITE:
            hint = _not_committed(
                "TMA" if second.agent == STORE else "wgmma", same=same
            )
        case "store", _:
            hint = (
                "a store still reads its SMEM: wait with"
                " plgpu.wait_smem_to_gmem(n, wait_read_only=True) before that is"
                " written again, n at most the number of slots - 1"
            )
        case _, "load":
            hint = _loaded_anew("what is done with it", same=same)
        case _:
            hint = (
                "nothing orders the two warpgroups: let one arrive at a barrier"
                " (plgpu.barrier_arrive) and the other one wait for it"
                " (plgpu.barrier_wait)"
            )
    return hint


def _loaded_anew(user: str, *, same: bool) -> str:
    """Says that a load must wait for the use of what it overwrites."""
    if same:
        return f"SMEM is loaded anew while it is still in use: first wait for {user}"
    return (
        f"SMEM is loaded anew while it is still in use: wait for {user}, then arrive"
        " at a barrier (plgpu.barrier_arrive) that the loading warpgroup waits for"
        " (plgpu.barrier_wait) before it loads again"
    )


def _not_committed(reader: str, *, same: bool) -> str:
    commit = f"{reader} sees what was stored to SMEM only after plgpu.commit_smem()"
    if same:
        return f"{commit}: call it between the two lines"
    return (
        f"{commit} by the warpgroup that stored, which must then arrive at a barrier"
        " that the other warpgroup waits for"
    )


def _loaded_late(*, same: bool) -> str:
    wait = "wait for the load's barrier with plgpu.barrier_wait before SMEM is read"
    if same:
        return wait
    return f"{wait}; if it is, the load must wait until the slot is released"


def _released_early(module: Path, operands: str) -> str:
    """Says how to keep a slot of a pipeline while a wgmma reads it."""
    specs = source.block_specs(module)
    without = [spec.line for spec in specs if spec.set_at is None]
    given = [spec.set_at for spec in specs if spec.set_at is not None]
    delay = _delay(given, module)
    if delay and not without:
        return (
            "a wgmma is still in flight when its slot is released: wait in every step"
            f" with plgpu.wgmma_wait({delay}), as many as delay_release"
            f" ({_lines(given, module)}) keeps slots for"
        )
    if without or not given:
        at = f" ({_places(without, module)})" if without else ""
        change = f"set delay_release=1 on the plgpu.BlockSpec of {operands}{at}"
    else:
        change = f"raise delay_release to 1 ({_lines(given, module)})"
    return (
        f"a wgmma is still in flight when its step ends: {change}, or wait for it in"
        " the step with plgpu.wgmma_wait(0)"
    )


def _delay(numbers: Sequence[int], module: Path) -> int:
    """Returns the least delay that lines such as `DELAY_RELEASE = 1` set; 0 if unknown."""
    lines = [describe_line(module, number) for number in numbers]
    found = [re.search(r"(?i:delay_release)\s*=\s*(\d+)", line) for line in lines]
    return min((int(each[1]) if each else 0 for each in found), default=0)


def _lines(numbers: Sequence[int], module: Path) -> str:
    """Returns `file.py:133: text`, or the places alone if there are several."""
    if len(set(numbers)) == 1:
        return describe_line(module, numbers[0])
    return _places(numbers, module)


def _places(numbers: Sequence[int], module: Path) -> str:
    lines = list(dict.fromkeys(numbers))
    told = [f"{module.name}:{line}" for line in lines[:MOST_LINES]]
    return ", ".join(told) + (", ..." if len(lines) > MOST_LINES else "")
