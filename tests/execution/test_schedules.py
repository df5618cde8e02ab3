"""Schedules beyond one CTA for each tile: every one passes static, lower and simulate."""

import pytest
from made import plan, request_at
from oldest import every_third

from kgen.emit.render import render

NT = '[kernel]\nlayout = "nt"\n'
TILE = "[tile]\nm = 64\nn = 64\n"
WIDE = "[tile]\nm = 64\nn = {}\n"
SKINNY = "[tile]\nm = 16\nn = {}\n"
RING = "[pipeline]\nmax_concurrent_steps = 2\n"
SPLIT_N = 'split = "n"\n'
ONE_WG = "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\n"
TWO_WGS = "[schedule]\nwarp_specialized = true\n"
PERSISTENT = "persistent = true\n"
PING_PONG = PERSISTENT + "ping_pong = true\n"
SWAPPED = "swap_operands = true\n"
SPLIT_2, SPLIT_3 = "split_k = 2\n", "split_k = 3\n"
CLUSTER_M, CLUSTER_N = "[cluster]\nm = 2\n", "[cluster]\nn = 2\n"
ACROSS_M = '[raster]\norder = "m"\nwidth = 2\n'
ACROSS_N = '[raster]\norder = "n"\nwidth = 3\n'
PIECES_OF_64 = "[store]\nn = 64\nslots = 2\n"
PIECES_OF_32 = "[store]\nn = 32\nslots = 2\n"
FP16_TO_FLOAT32 = '[dtypes]\na = "float16"\nb = "float16"\nout = "float32"\n'
TF32 = NT + '[dtypes]\na = "float32"\nb = "float32"\n'

# Sizes in units along m, n and k, and SMs. Where the ring goes around twice in a tile,
# one CTA has two tiles and another a single one.
WALK = ((3, 1, 4), 2)
# Steps that are no multiple of the ring's slots; one tile for all SMs.
ODD, ONE_TILE = ((1, 2, 3), 1), ((1, 1, 2), 132)
# A CTA for each tile: fewer steps than slots, and more.
SHORT, LONG = ((1, 2, 1), None), ((2, 1, 3), None)

SCHEDULES = {
    "persistent": (TILE + ONE_WG + PERSISTENT, (WALK, ODD, ONE_TILE)),
    "persistent_two_warpgroups": (
        "[tile]\nm = 128\nn = 64\n" + TWO_WGS + PERSISTENT,
        (WALK,),
    ),
    "persistent_nt_across_m": (
        NT + TILE + ONE_WG + PERSISTENT + ACROSS_M,
        (((3, 2, 2), 2),),
    ),
    "persistent_float16_across_n": (
        FP16_TO_FLOAT32 + TILE + ONE_WG + PERSISTENT + ACROSS_N,
        (((2, 4, 1), 3),),
    ),
    "persistent_tf32": (TF32 + TILE + ONE_WG + PERSISTENT, (WALK,)),
    "persistent_cluster_m": (
        TILE + ONE_WG + PERSISTENT + CLUSTER_M,
        (((4, 1, 4), 4), ((3, 1, 4), 4), ((1, 2, 3), 3)),
    ),
    "persistent_two_pieces_in_cluster_n": (
        NT + WIDE.format(128) + ONE_WG + PERSISTENT + CLUSTER_N + PIECES_OF_64,
        (((3, 1, 4), 4),),
    ),
    "persistent_three_pieces_in_two_slots": (
        WIDE.format(192) + ONE_WG + PERSISTENT + PIECES_OF_64,
        (WALK,),
    ),
    "persistent_pieces_of_two_warpgroups": (
        "[tile]\nm = 128\nn = 96\n" + TWO_WGS + PERSISTENT + PIECES_OF_32,
        (WALK,),
    ),
    "persistent_swapped": (SKINNY.format(64) + ONE_WG + PERSISTENT + SWAPPED, (WALK,)),
    "persistent_swapped_pieces_in_cluster": (
        SKINNY.format(192) + ONE_WG + PERSISTENT + SWAPPED + CLUSTER_N + PIECES_OF_64,
        (((3, 1, 2), 4),),
    ),
    "ping_pong": (TILE + TWO_WGS + PING_PONG, (WALK, ODD, ONE_TILE, ((3, 2, 1), 1))),
    "ping_pong_nt_across_n_in_pieces": (
        NT + WIDE.format(128) + TWO_WGS + PING_PONG + ACROSS_N + PIECES_OF_32,
        (((3, 2, 3), 2),),
    ),
    "ping_pong_float16": (FP16_TO_FLOAT32 + TILE + TWO_WGS + PING_PONG, (WALK,)),
    "ping_pong_tf32": (TF32 + TILE + TWO_WGS + PING_PONG, (WALK,)),
    "split_2": (TILE + ONE_WG + SPLIT_2, (LONG,)),
    "split_2_nt": (NT + WIDE.format(128) + TWO_WGS + SPLIT_2 + SPLIT_N, (LONG,)),
    "split_3_float16": (FP16_TO_FLOAT32 + TILE + ONE_WG + SPLIT_3, (LONG,)),
    "split_3_nt_across_n": (NT + TILE + ONE_WG + SPLIT_3 + ACROSS_N, (SHORT,)),
    "split_2_pieces_in_cluster": (
        WIDE.format(128) + ONE_WG + SPLIT_2 + CLUSTER_M + PIECES_OF_32,
        (LONG,),
    ),
    "swapped": (SKINNY.format(64) + ONE_WG + SWAPPED, (LONG,)),
    "swapped_two_warpgroups": (SKINNY.format(128) + TWO_WGS + SWAPPED, (LONG,)),
    "swapped_two_warpgroups_nt": (
        NT + SKINNY.format(128) + TWO_WGS + SWAPPED + CLUSTER_M,
        (SHORT,),
    ),
    "swapped_split_2": (SKINNY.format(128) + TWO_WGS + SWAPPED + SPLIT_2, (LONG,)),
    "swapped_split_3_nt": (
        NT + SKINNY.format(64) + ONE_WG + SWAPPED + SPLIT_3,
        (LONG,),
    ),
    "cluster_n": (NT + TILE + ONE_WG + CLUSTER_N, (SHORT,)),
    "across_m": (TILE + ONE_WG + ACROSS_M, (((3, 2, 1), None),)),
    "across_n_in_cluster": (TILE + ONE_WG + CLUSTER_M + ACROSS_N, (((2, 2, 3), None),)),
}


@pytest.mark.parametrize("name", every_third((each,) for each in SCHEDULES))
def test_schedule_passes(name, prover, tmp_path):
    tables, sizes = SCHEDULES[name]
    made = plan(tmp_path, tables + RING, name)
    verdict = prover.verify(request_at(made, sizes), x64=False)
    assert verdict.passed, str(verdict.failure)


@pytest.mark.parametrize(("cluster", "drains"), [("", False), (CLUSTER_M, True)])
def test_where_neighbours_arrive_a_single_tile_drains_its_ring(
    cluster, drains, tmp_path
):
    """No level on a CPU sees a CTA end before what arrives there from its cluster."""
    made = plan(tmp_path, TILE + ONE_WG + PERSISTENT + cluster)
    source = render(made, verified=False, prove=False).source
    assert ('num_tiles < 2 * lax.axis_size("cta")' in source) == drains
