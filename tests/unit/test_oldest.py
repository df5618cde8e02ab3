"""How tests are shared between the newest and the oldest JAX."""

from oldest import LEFT_OUT, LEFT_TO_OLDEST, marks_of

MARKS = [marks_of(index) for index in range(12)]


def test_each_of_many_runs_with_one_jax_at_least_and_some_with_both():
    assert all(len(marks) < 2 for marks in MARKS)
    assert [index for index, marks in enumerate(MARKS) if not marks] == [0, 6]


def test_what_one_jax_leaves_out_the_other_runs():
    newest, oldest = (
        {index for index, marks in enumerate(MARKS) if mark not in marks}
        for mark in (LEFT_TO_OLDEST, LEFT_OUT)
    )
    assert newest | oldest == set(range(12))
    assert oldest == {0, 3, 6, 9}
    # Of each mark only one is in force, and says why.
    in_force = [mark.args[0] for mark in (LEFT_OUT, LEFT_TO_OLDEST)]
    assert sorted(in_force) == [False, True]
    assert all(mark.kwargs["reason"] for mark in (LEFT_OUT, LEFT_TO_OLDEST))
