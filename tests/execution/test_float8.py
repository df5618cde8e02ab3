"""Products of 8-bit floats, in every schedule: each passes static, lower and simulate."""

import pytest
from made import plan, request_at
from oldest import every_third

NT = '[kernel]\nlayout = "nt"\n'
E4M3 = '[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
E5M2 = '[dtypes]\na = "float8_e5m2"\nb = "float8_e5m2"\n'
MIXED = '[dtypes]\na = "float8_e4m3fn"\nb = "float8_e5m2"\n'
TILE = "[tile]\nm = 64\nn = {}\n"
RING = "[pipeline]\nmax_concurrent_steps = 2\n"
PROMOTED = RING + "promote = true\n"
SCALED = "[scales]\nblock = 128\n"
ONE_WG = "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\n"
TWO_WGS = "[schedule]\nwarp_specialized = true\n"
SWAPPED = "swap_operands = true\n"
WALK, LONG = ((3, 1, 4), 2), ((2, 1, 3), None)

SCHEDULES = {
    "pipelined_narrow_swizzle": (
        NT
        + MIXED
        + TILE.format(24)
        + "k = 32\n"
        + RING
        + "[transforms]\nswizzle = 32\n",
        (LONG,),
    ),
    "pallas_call_to_float16": (
        NT
        + 'entry_point = "pallas_call"\n'
        + E5M2
        + 'out = "float16"\n'
        + TILE.format(64)
        + RING,
        (LONG,),
    ),
    "persistent_deep_step": (
        NT
        + MIXED
        + "[tile]\nm = 128\nn = 64\nk = 256\n"
        + RING
        + TWO_WGS
        + "persistent = true\n",
        (WALK,),
    ),
    "persistent_cluster": (
        NT
        + E5M2
        + 'out = "float32"\n'
        + TILE.format(64)
        + RING
        + ONE_WG
        + "persistent = true\n[cluster]\nm = 2\n",
        (((4, 1, 4), 4),),
    ),
    "split_k_in_bands": (
        NT
        + E4M3
        + TILE.format(64)
        + RING
        + ONE_WG
        + 'split_k = 2\n[raster]\norder = "n"\nwidth = 2\n',
        (LONG,),
    ),
    "promoted": (
        NT + MIXED + "[tile]\nm = 128\nn = 64\n" + PROMOTED + TWO_WGS,
        (LONG,),
    ),
    "promoted_over_16384_products": (
        NT + E4M3 + TILE.format(8) + "k = 256\n" + PROMOTED + ONE_WG + "split_k = 2\n",
        (((1, 1, 32), None),),
    ),
    "promoted_persistent_swapped": (
        NT
        + E4M3
        + "[tile]\nm = 8\nn = 128\n"
        + PROMOTED
        + TWO_WGS
        + SWAPPED
        + "persistent = true\n",
        (WALK,),
    ),
    "block_scaled_in_cluster": (
        NT
        + MIXED
        + "[tile]\nm = 64\n"
        + RING
        + SCALED
        + ONE_WG
        + "split_k = 2\n[cluster]\nm = 2\n",
        (LONG,),
    ),
    "block_scaled_split_n_and_bias": (
        NT
        + E4M3
        + "[tile]\nm = 64\n"
        + RING
        + SCALED
        + TWO_WGS
        + 'split = "n"\npersistent = true\n[[epilogue]]\nop = "bias"\n',
        (WALK,),
    ),
    "swapped": (
        NT + MIXED + "[tile]\nm = 8\nn = 128\n" + RING + TWO_WGS + SWAPPED,
        (LONG,),
    ),
}


@pytest.mark.parametrize("name", every_third((each,) for each in SCHEDULES))
def test_schedule_passes(name, prover, tmp_path):
    tables, sizes = SCHEDULES[name]
    verdict = prover.verify(request_at(plan(tmp_path, tables, name), sizes), x64=False)
    assert verdict.passed, str(verdict.failure)
