"""JAX lowers kernels of as many slots as rule KG512 allows, and none of more."""

import pytest
from made import load, module, plan

from kgen.plan import candidate, make_plan
from kgen.verify.explain import LevelError

TILE = "[tile]\nm = 64\nn = 8\nk = 32\n"
MATMUL = f'[kernel]\nlayout = "nt"\n{TILE}'
ALONE = "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\n"
TURNS = "[schedule]\nwarp_specialized = true\npersistent = true\nping_pong = true\n"
KINDS = {
    "pipelined": (MATMUL, 32),
    "pallas_call": (
        MATMUL.replace("\n", '\nentry_point = "pallas_call"\n', 1),
        32,
    ),
    "warp_specialized": (MATMUL + ALONE, 32),
    "ping_pong": (MATMUL + TURNS, 16),
    "glu": (
        f'[kernel]\nname = "glu"\nop = "glu"\nlayout = "nt"\n{TILE}{ALONE}'
        "persistent = true\n",
        32,
    ),
}
DEEP = (2, 2, 66)
"""Tiles along m, n and k: a ring has no more slots than the tile has steps."""


def slots(text, count):
    return f"{text}[pipeline]\nmax_concurrent_steps = {count}\n"


@pytest.mark.parametrize(("text", "most"), KINDS.values(), ids=list(KINDS))
def test_a_group_has_as_many_barriers_as_jax_lowers(text, most, tmp_path, monkeypatch):
    fits = module(tmp_path, plan(tmp_path, slots(text, most)))
    fits.lower(fits.at(DEEP))
    spec = load(tmp_path, slots(text, most + 1), "one_more_slot")
    monkeypatch.setattr(candidate, "GROUP_BARRIERS", 64)
    one_more = module(tmp_path, make_plan(spec))
    with pytest.raises(LevelError, match="Only up to 32 barriers per group"):
        one_more.lower(one_more.at(DEEP))
