"""Variants that the catalogue does not have: each is lowered and simulated."""

import pytest
from made import module, plan
from oldest import every_third

NT = '[kernel]\nlayout = "nt"\n'
FLOAT32 = '[dtypes]\na = "float32"\nb = "float32"\n'
WARP_SPECIALIZED = "[schedule]\nwarp_specialized = true\n"
VARIANTS = {
    "three_warpgroups_split_m": "[tile]\nm = 192\nn = 64\n"
    + WARP_SPECIALIZED
    + "num_compute_wgs = 3\n",
    "three_warpgroups_split_n": "[tile]\nm = 64\nn = 192\n"
    + WARP_SPECIALIZED
    + 'num_compute_wgs = 3\nsplit = "n"\n',
    "two_warpgroups_split_n_of_k_major_b": NT
    + "[tile]\nm = 64\nn = 48\n"
    + WARP_SPECIALIZED
    + 'split = "n"\n',
    "pieces_in_three_slots": "[tile]\nm = 64\nn = 128\n[store]\nn = 32\nslots = 3\n",
    "pieces_in_one_slot": "[tile]\nm = 64\nn = 128\n[store]\nn = 64\nslots = 1\n",
    "pieces_of_warpgroups": "[store]\nn = 32\n" + WARP_SPECIALIZED,
    "plain_rows_of_output": NT + "[tile]\nm = 64\nn = 24\n",
    "smallest_tile": NT + "[tile]\nm = 64\nn = 8\nk = 16\n",
    "float32_out_of_bfloat16": '[dtypes]\nout = "float32"\n[tile]\nm = 64\nn = 64\n',
    "float16_out_of_bfloat16": '[dtypes]\nout = "float16"\n[tile]\nm = 64\nn = 64\n',
    "bfloat16_out_of_float32": NT
    + FLOAT32
    + 'out = "bfloat16"\n[tile]\nm = 64\nn = 64\n',
    "float32_warp_specialized": NT + FLOAT32 + "[tile]\nn = 64\n" + WARP_SPECIALIZED,
    "float32_pallas_call": '[kernel]\nlayout = "nt"\nentry_point = "pallas_call"\n'
    + FLOAT32
    + "[tile]\nm = 64\nn = 64\n",
    "narrow_swizzle": "[tile]\nm = 64\nn = 64\n[transforms]\nswizzle = 32\n",
    "own_output_swizzle": "[tile]\nm = 64\nn = 64\n[transforms]\n"
    "out = { swizzle = 32, tiling = [8, 16] }\n",
    "deep_step": "[tile]\nm = 64\nn = 64\nk = 256\n",
    "long_ring": "[tile]\nm = 64\nn = 64\n[pipeline]\nmax_concurrent_steps = 9\n",
}


@pytest.mark.parametrize("variant", every_third((each,) for each in VARIANTS))
def test_variant_is_right(variant, tmp_path):
    made = module(tmp_path, plan(tmp_path, VARIANTS[variant]))
    made.lower()  # With the planned SMEM at every size.
    made.simulate(made.at((2, 3, 1), (1, 2, 5)))
