"""Batches: how they broadcast, what is planned for them, and what a module says."""

import pytest
from made import plan

from kgen import module_text
from kgen.emit.render import render
from kgen.layouts import broadcast
from kgen.pipeline import request_of
from kgen.verify import Request, RequestCase

pytestmark = pytest.mark.without_jax

BATCH = "[shapes]\nbatch = true\n"


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        ((), (), ()),
        ((3,), (), (3,)),
        ((1,), (2,), (2,)),
        ((2, 1), (3,), (2, 3)),
        ((2, 3), (3,), (2, 3)),
        ((0,), (1,), (0,)),
        ((), (0, 2), (0, 2)),
    ],
)
def test_leading_dimensions_broadcast(a, b, both):
    assert broadcast(a, b) == both
    assert broadcast(b, a) == both


@pytest.mark.parametrize(("a", "b"), [((2,), (3,)), ((0,), (2,)), ((2, 1), (3, 2))])
def test_leading_dimensions_that_do_not(a, b):
    with pytest.raises(ValueError, match="do not broadcast"):
        broadcast(a, b)


def test_a_case_says_its_batch():
    case = RequestCase(m=1, n=2, k=3, a_batch=(2, 1), b_batch=(4,))
    assert str(case) == "a=[2, 1], b=[4], m=1, n=2, k=3"
    assert case.batch == (2, 4)
    with pytest.raises(ValueError, match=r"batches of \[2\] and \[3\] do not"):
        RequestCase(m=1, n=2, k=3, a_batch=(2,), b_batch=(3,))


@pytest.mark.parametrize("edge", ["exact", "any"])
@pytest.mark.parametrize(
    "schedule", ["", "[schedule]\nwarp_specialized = true\npersistent = true\n"]
)
def test_a_batch_is_verified_with_either_operand_alone(edge, schedule, tmp_path):
    made = plan(tmp_path, BATCH + f'edge = "{edge}"\n' + schedule)
    leading = {(case.a_batch, case.b_batch) for case in made.cases}
    assert {((), ()), ((2,), (2,)), ((3,), ()), ((1,), (2,))} <= leading
    assert ((2, 1), (3,)) in leading
    assert max(made.steps(case.k) for case in made.cases) > made.max_concurrent_steps
    persistent = bool(schedule)
    assert all((case.num_sms is not None) == persistent for case in made.cases)


def test_sizes_of_the_spec_have_its_batch(tmp_path):
    test = "[test]\nshapes = [[256, 128, 64]]\nbatch = [4, 3]\n"
    made = plan(tmp_path, BATCH + test)
    assert (made.cases[-1].a_batch, made.cases[-1].b_batch) == ((4, 3), (4, 3))
    assert made.cases[-1].simulate
    # 4 * 16 * 2 steps are too many.
    made = plan(tmp_path, BATCH + test.replace("4, 3", "4, 16"))
    assert not made.cases[-1].simulate
    text = render(made, verified=False, prove=False).test_source
    assert "GPU_SHAPES = [((4, 16), (4, 16), 256, 128, 64)]" in text


def test_a_module_says_that_it_takes_batches(tmp_path):
    for tables, batched in ((BATCH, True), ("", False)):
        source = render(plan(tmp_path, tables), verified=False, prove=False).source
        assert module_text.describe(source).batched is batched
        assert ("custom_vmap" in source) is batched


def test_a_request_of_batches_makes_the_round_trip(tmp_path):
    made = plan(tmp_path, BATCH)
    asked = request_of(made, render(made, verified=False, prove=False))
    assert asked.cases[1].a_batch == (2,)
    assert Request.from_json(asked.to_json()) == asked
