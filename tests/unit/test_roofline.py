"""Figures worked out by hand."""

import pytest

from kgen.arch import SM_90A
from kgen.roofline import Waves, matmul_work, occupancy, roofline, round_up


def work_4096():
    return matmul_work(
        (4096, 4096, 4096), (128, 128), operand_dtype="float16", out_dtype="float16"
    )


def test_work_of_a_cube():
    work = work_4096()
    assert work.flops == 137_438_953_472
    # Three matrices of 4096 * 4096 * 2 bytes.
    assert work.minimal_bytes == 100_663_296
    # 1024 CTAs read 256 rows of 4096 * 2 bytes each; C is written once.
    assert work.uncached_bytes == 1024 * 256 * 8192 + 33_554_432
    assert work.intensity == pytest.approx(4096 / 3)


def test_work_counts_each_dtype_and_each_axis_by_itself():
    work = matmul_work(
        (128, 256, 64), (64, 128), operand_dtype="float32", out_dtype="bfloat16"
    )
    assert work.flops == 4_194_304
    assert work.minimal_bytes == (128 * 64 + 64 * 256) * 4 + 128 * 256 * 2 == 163_840
    assert work.uncached_bytes == 4 * (64 + 128) * 64 * 4 + 65_536 == 262_144


def test_work_is_exact_beyond_64_bits():
    side = 2**32
    work = matmul_work(
        (side, side, side), (128, 128), operand_dtype="float16", out_dtype="float16"
    )
    assert work.flops == 2**97
    assert work.minimal_bytes == 3 * 2**65
    assert isinstance(work.flops, int)


@pytest.mark.parametrize(
    ("smem_bytes", "by_smem"),
    [
        # Each CTA takes 1024 B more, of 233,472 B: an SM holds two of 115,712 B.
        (232_448, 1),
        (115_713, 1),
        (115_712, 2),
        (76_800, 3),
        (0, 32),
    ],
)
def test_occupancy_by_smem(smem_bytes, by_smem):
    found = occupancy(
        SM_90A, smem_bytes=smem_bytes, registers_per_cta=1024, threads=128
    )
    assert found.by_smem == by_smem


def test_occupancy_is_what_the_scarcest_allows():
    found = occupancy(
        SM_90A, smem_bytes=40_000, registers_per_cta=128 * 152, threads=384
    )
    assert (found.by_smem, found.by_registers, found.by_threads) == (5, 3, 5)
    assert found.ctas_per_sm == 3


@pytest.mark.parametrize(
    ("ctas", "whole", "efficiency", "busiest"),
    [
        (1, 1, 1 / 264, 1),
        (132, 1, 0.5, 1),
        (264, 1, 1.0, 2),
        (265, 2, 265 / 528, 3),
        (528, 2, 1.0, 4),
    ],
)
def test_waves_with_two_ctas_per_sm(ctas, whole, efficiency, busiest):
    waves = Waves(ctas=ctas, slots=264, num_sms=132)
    assert waves.whole_waves == whole
    assert waves.tail_efficiency == efficiency
    assert waves.tiles_of_busiest_sm == busiest
    assert waves.waves == ctas / 264


def test_roofline_of_a_cube_is_bound_by_compute():
    times = roofline(
        SM_90A, work_4096(), Waves(ctas=1024, slots=132, num_sms=132), "float16"
    )
    assert times.compute_us == pytest.approx(138.9676, rel=1e-5)
    assert times.memory_us == pytest.approx(23.41007, rel=1e-5)
    assert times.bound == "compute"
    assert times.roofline_us == times.compute_us
    # The busiest SM has 8 of 1024 tiles, where 1024 / 132 = 7.76 would be even.
    assert times.quantised_us == pytest.approx(138.9676 * 8 * 132 / 1024, rel=1e-5)


def test_roofline_of_a_thin_product_is_bound_by_memory():
    work = matmul_work(
        (128, 128, 65_536), (128, 128), operand_dtype="float16", out_dtype="float16"
    )
    times = roofline(SM_90A, work, Waves(ctas=1, slots=132, num_sms=132), "float16")
    assert times.bound == "memory"
    assert times.roofline_us == times.memory_us == pytest.approx(7.811, rel=1e-3)
    # But only one SM computes: 2,147,483,648 FLOP at 989/132 TFLOP/s.
    assert times.quantised_us == pytest.approx(286.62, rel=1e-4)


def test_float32_runs_at_the_tf32_rate():
    work = matmul_work(
        (4096, 4096, 4096), (128, 128), operand_dtype="float32", out_dtype="float32"
    )
    times = roofline(SM_90A, work, Waves(ctas=132, slots=132, num_sms=132), "float32")
    assert times.compute_us == pytest.approx(278.2165, rel=1e-5)
    assert times.quantised_us == times.compute_us


def test_round_up():
    assert [round_up(value, 8) for value in (0, 1, 8, 9, 255)] == [0, 8, 8, 16, 256]
