"""Collective copies: which CTA's issue completes one."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from kgen.verify.simulate.loads import Issue, joined
from kgen.verify.simulate.pieces import Place


@dataclasses.dataclass(frozen=True)
class Key:
    """As much of JAX's key of an allocation as a collective copy asks for."""

    block_id: int
    buffer: str


def issue(block: int, slot: str = "slot 0") -> Issue:
    site: Any = SimpleNamespace(thread=SimpleNamespace(block_id=block))
    return Issue(
        site=site,
        source=Place(Key(0, "gmem"), "all"),
        target=Place(Key(block, slot), "all"),
        barrier=Key(block, f"barrier of {slot}"),
        clock=None,
        position=0,
        fill="zeros",
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_only_the_last_to_issue_a_copy_carries_it_out(order):
    pending: dict[Any, Any] = {}
    issues = {block: issue(block) for block in order}
    answers = {block: joined(pending, issues[block], (0, 1)) for block in order}
    # What the first was told must not change once the next CTA has issued the copy, too.
    assert not answers[order[0]]
    assert answers[order[1]] == [issues[0], issues[1]]


def test_the_next_copy_into_a_slot_waits_for_its_own_peer():
    pending: dict[Any, Any] = {}
    first, second = issue(0), issue(0)
    assert not joined(pending, first, (0, 1))
    assert not joined(pending, second, (0, 1))
    peer = issue(1)
    assert joined(pending, peer, (0, 1))[0] is first
    assert joined(pending, issue(1), (0, 1))[0] is second
    assert not any(pending.values())


def test_slots_are_kept_apart():
    pending: dict[Any, Any] = {}
    assert not joined(pending, issue(0, "slot 0"), (0, 1))
    assert not joined(pending, issue(1, "slot 1"), (0, 1))
    assert joined(pending, issue(1, "slot 0"), (0, 1))
