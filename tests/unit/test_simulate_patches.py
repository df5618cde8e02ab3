"""What the simulator replaces in JAX is put back."""

import types

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu
from made import module, plan

from kgen.verify.simulate.patches import Patches


class Owner:
    def told(self):
        return "own"


class Heir(Owner):
    pass


def test_replaces_in_the_block_and_in_every_later_one():
    patches, installed = Patches(), []
    place = types.SimpleNamespace(told=Owner.told)

    def install():
        installed.append(1)
        patches.replace(Owner, "told", lambda self: "first")
        patches.replace(Owner, "told", lambda self: "second")
        patches.replace(Heir, "told", lambda self: "heir")
        patches.replace(place, "told", None)

    before = Owner.told
    for _ in range(2):
        with patches.applied(install):
            assert (Owner().told(), Heir().told(), place.told) == (
                "second",
                "heir",
                None,
            )
        assert Owner.told is before
        assert Heir().told() == "own"
        assert place.told is before
    assert installed == [1]


def test_an_installation_that_fails_leaves_nothing_and_is_tried_again():
    patches = Patches()

    def install():
        patches.replace(Owner, "told", lambda self: "half")
        raise AttributeError

    before = Owner.told
    for _ in range(2):
        with pytest.raises(AttributeError), patches.applied(install):
            pass
        assert Owner.told is before


def test_jax_s_own_interpreter_works_after_a_simulation(tmp_path):
    text = "[tile]\nm = 64\nn = 16\nk = 16\n[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\n"
    made = module(tmp_path, plan(tmp_path, text))
    made.simulate(made.at((1, 1, 1)))
    operands = jnp.ones((64, 32), "bfloat16"), jnp.ones((32, 16), "bfloat16")
    own = plgpu.InterpretGPUParams(detect_races=True)
    product = jax.jit(lambda a, b: made.function(a, b, interpret=own))(*operands)
    assert (product == 32).all()
