"""Choices and budgets of the matmul planner, computed by hand."""

import pytest
from made import plan

from kgen.arch import SM_90A
from kgen.plan.budget import compute_registers

WARP_SPECIALIZED = "[schedule]\nwarp_specialized = true\n"
NT = '[kernel]\nlayout = "nt"\n'


def smem(made):
    return {
        buffer.name: (buffer.slots, buffer.shape, buffer.bytes)
        for buffer in made.smem.buffers
    }


def test_defaults_are_a_good_kernel(tmp_path):
    made = plan(tmp_path, "")
    assert (made.tile_m, made.tile_n, made.tile_k) == (128, 128, 64)
    assert made.max_concurrent_steps == 4
    assert (made.delay_release, made.wgmma_in_flight) == (1, 1)
    assert made.operand_layout.swizzle == 128
    assert made.operand_layout.tiling == (8, 64)
    assert made.out_dtype == "bfloat16"


def test_smem_of_a_pipeline(tmp_path):
    made = plan(tmp_path, "")
    assert smem(made) == {
        "a_smem": (4, (128, 64), 65_536),
        "b_smem": (4, (64, 128), 65_536),
        "barriers: loaded": (4, (), 32),
        "out_smem": (1, (128, 128), 32_768),
    }
    assert made.smem.total == 163_872
    assert made.smem.limit == 232_448


def test_smem_of_warp_specialisation_has_two_barriers_a_slot(tmp_path):
    made = plan(tmp_path, WARP_SPECIALIZED)
    assert smem(made)["barriers: loaded"] == (4, (), 32)
    assert smem(made)["barriers: released"] == (4, (), 32)
    assert smem(made)["out_smem"] == (2, (64, 128), 32_768)


def test_smem_of_a_pallas_call_has_an_output_block_a_slot(tmp_path):
    made = plan(
        tmp_path,
        '[kernel]\nentry_point = "pallas_call"\n[pipeline]\nmax_concurrent_steps = 3\n',
    )
    assert smem(made)["out_smem"] == (3, (128, 128), 98_304)


def test_every_ref_is_rounded_up_to_1024_bytes(tmp_path):
    made = plan(tmp_path, NT + "[tile]\nm = 64\nn = 8\nk = 32\n")
    # 4 slots of 8 x 32 are 2,048 bytes; 64 x 8 of output are 1,024; 4 of 64 x 32 fit.
    assert smem(made)["b_smem"] == (4, (8, 32), 2_048)
    made = plan(
        tmp_path,
        NT + "[tile]\nm = 64\nn = 8\nk = 16\n[pipeline]\nmax_concurrent_steps = 3\n",
    )
    assert smem(made)["b_smem"] == (3, (8, 16), 1_024)  # 768 bytes


def test_slots_are_clamped_to_the_steps_of_a_case(tmp_path):
    made = plan(tmp_path, "")
    one_step = next(case for case in made.cases if case.k == 64)
    assert one_step.smem_bytes == 16_384 + 16_384 + 32_768 + 8
    seven_steps = next(case for case in made.cases if case.k == 7 * 64)
    assert seven_steps.smem_bytes == made.smem.total


@pytest.mark.parametrize("tile", [(128, 128, 64), (64, 128, 32), (192, 64, 64)])
def test_cases_have_one_two_three_and_seven_tiles_along_each_axis(tile, tmp_path):
    made = plan(tmp_path, "[tile]\nm = {}\nn = {}\nk = {}\n".format(*tile))
    for axis, size in zip("mnk", tile, strict=True):
        counts = {getattr(case, axis) // size for case in made.cases}
        assert counts == {1, 2, 3, 7}, axis
    assert all(len({case.m, case.n, case.k}) == 3 for case in made.cases)


def test_some_case_goes_around_a_long_ring(tmp_path):
    made = plan(
        tmp_path, "[tile]\nm = 64\nn = 64\n[pipeline]\nmax_concurrent_steps = 9\n"
    )
    assert max(case.k for case in made.cases) == 10 * 64


@pytest.mark.parametrize(
    ("tables", "slots"),
    [
        ("", 4),
        ('[kernel]\nentry_point = "pallas_call"\n', 3),
        ('[dtypes]\nout = "float32"\n[kernel]\nentry_point = "pallas_call"\n', 2),
        ("[tile]\nm = 256\nn = 192\n" + WARP_SPECIALIZED, 3),
        ("[pipeline]\ndelay_release = 5\n[tile]\nm = 64\n", 6),
    ],
)
def test_the_ring_has_four_slots_or_what_fits(tmp_path, tables, slots):
    assert plan(tmp_path, tables).max_concurrent_steps == slots


@pytest.mark.parametrize(
    ("tables", "swizzle"),
    [
        ("", 128),
        ("[tile]\nk = 32\n", 64),
        ("[tile]\nk = 16\n", 32),
        ("[tile]\nn = 96\n", 64),
        ("[tile]\nn = 48\n", 32),
        (NT + "[tile]\nn = 48\n", 128),
        ("[tile]\nn = 96\nk = 16\n", 32),
        # Each of two warpgroups reads 96 columns.
        ("[tile]\nm = 64\nn = 192\n" + WARP_SPECIALIZED + 'split = "n"\n', 64),
    ],
)
def test_auto_is_the_widest_legal_swizzle(tmp_path, tables, swizzle):
    assert plan(tmp_path, tables).operand_layout.swizzle == swizzle


@pytest.mark.parametrize(
    ("dtype", "tile_n", "swizzle"),
    [
        ("bfloat16", 64, 128),
        ("bfloat16", 96, 64),
        ("bfloat16", 48, 32),
        ("bfloat16", 24, None),
        ("float32", 32, 128),
        ("float32", 24, 32),
        ("float32", 48, 64),
    ],
)
def test_the_output_has_a_swizzle_of_its_own(tmp_path, dtype, tile_n, swizzle):
    tables = f'{NT}[dtypes]\nout = "{dtype}"\n[tile]\nn = {tile_n}\n'
    made = plan(tmp_path, tables)
    assert made.out_layout.swizzle == swizzle


def test_the_output_leaves_in_pieces_where_it_does_not_fit(tmp_path):
    made = plan(tmp_path, "[tile]\nn = 256\n" + WARP_SPECIALIZED)
    assert made.max_concurrent_steps == 4
    assert (made.store_n, made.store_slots) == (64, 2)
    assert made.smem.total == 4 * 49_152 + 32_768 + 64


def test_an_explicit_piece_is_kept(tmp_path):
    made = plan(tmp_path, "[store]\nn = 32\nslots = 3\n")
    assert (made.store_n, made.store_slots) == (32, 3)


@pytest.mark.parametrize(
    ("memory_registers", "wgs", "registers"),
    [(40, 1, 256), (40, 2, 232), (40, 3, 152), (24, 2, 240), (128, 3, 128)],
)
def test_registers_of_compute_warpgroups(memory_registers, wgs, registers):
    assert compute_registers(SM_90A, memory_registers, wgs) == registers


def test_registers_of_an_accumulator(tmp_path):
    made = plan(tmp_path, "[tile]\nn = 256\n" + WARP_SPECIALIZED)
    assert (made.wg_m, made.wg_n) == (64, 256)
    assert made.registers.accumulator == 64 * 256 // 128
    assert made.registers.compute_limit == 232
    assert made.registers.memory_limit == 40
    single = plan(tmp_path, WARP_SPECIALIZED + "num_compute_wgs = 1\n")
    assert single.registers.compute_limit == 255  # no thread can address 256


def test_large_shapes_are_lowered_but_not_simulated(tmp_path):
    made = plan(tmp_path, "[test]\nshapes = [[256, 256, 512], [16896, 512, 640]]\n")
    small, large = made.cases[-2:]
    assert (small.simulate, large.simulate) == (True, False)
    assert made.gpu_shapes == ((256, 256, 512), (16896, 512, 640))


def test_a_module_without_shapes_gets_one_for_the_gpu(tmp_path):
    assert plan(tmp_path, "").gpu_shapes == ((17 * 128, 5 * 128, 9 * 64),)
