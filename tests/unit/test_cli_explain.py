"""`kgen explain`: figures worked out by hand, and every way to ask for the wrong thing."""

import json
from pathlib import Path

import pytest
from commands import kgen

from kgen.explain.fields import FIELDS

ROOT = Path(__file__).parents[2]

SPEC = """
[kernel]
name = "fp16_128x128"
op = "matmul"
[dtypes]
a = "float16"
b = "float16"
[tile]
m = 128
n = 128
k = 64
[pipeline]
max_concurrent_steps = 4
[test]
shapes = [[256, 256, 512], [16896, 512, 640]]
"""
FAMILY = """
[kernel]
name = "bf16_128x{tile.n}"
op = "matmul"
[matrix]
tile.n = [64, 96]
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fp16_128x128.toml").write_text(SPEC)
    (tmp_path / "family.toml").write_text(FAMILY)
    (tmp_path / "bare.toml").write_text('[kernel]\nname = "bare"\nop = "matmul"\n')
    return "fp16_128x128.toml"


def figures(*arguments):
    outcome = kgen("explain", *arguments, "--format", "json")
    assert outcome.exit_code == 0, outcome.stderr
    (variant,) = json.loads(outcome.stdout)["variants"]
    return variant


def test_json_has_the_documented_keys_in_order(spec):
    found = figures(spec)
    assert list(found) == list(FIELDS)
    for group, fields in FIELDS.items():
        rows = found[group] if isinstance(found[group], list) else [found[group]]
        for row in rows:
            assert list(row) == list(fields)


def test_kernel_tile_and_pipeline(spec):
    found = figures(spec)
    assert found["kernel"]["name"] == "fp16_128x128"
    assert found["kernel"]["out_dtype"] == "float16"
    assert found["kernel"]["schedule"] == "pipelined"
    assert found["kernel"]["entry_point"] == "kernel"
    assert found["kernel"]["spec_file"] == "fp16_128x128.toml"
    assert found["tile"] == {
        "m": 128,
        "n": 128,
        "k": 64,
        "num_warpgroups": 1,
        "num_compute_wgs": 1,
        "threads_per_cta": 128,
        "split": None,
        "wg_m": 128,
        "wg_n": 128,
    }
    assert found["pipeline"] == {
        "max_concurrent_steps": 4,
        "delay_release_steps": 1,
        "wgmma_in_flight": 1,
        "promoted_every": None,
        "scale_block": None,
        "gate_first": 0,
        "store_m": 128,
        "store_n": 128,
        "store_slots": 1,
    }


def test_smem_map(spec):
    smem = figures(spec)["smem"]
    # A and B: 4 slots of 128 x 64 x 2 bytes; 4 barriers; the output.
    assert smem["total_bytes"] == 65_536 + 65_536 + 4 * 8 + 32_768 == 163_872
    assert smem["limit_bytes"] == 232_448
    assert smem["free_bytes"] == 68_576
    assert smem["used_ratio"] == 163_872 / 232_448
    assert sum(buffer["bytes"] for buffer in smem["buffers"]) == 163_872
    assert smem["buffers"][0] == {
        "name": "a_smem",
        "shape": [128, 64],
        "dtype": "float16",
        "slots": 4,
        "bytes": 65_536,
    }


def test_the_default_shape_is_the_largest_tested_one(spec):
    shape = figures(spec)["shape"]
    assert (shape["m"], shape["n"], shape["k"]) == (16_896, 512, 640)
    assert shape["grid"] == [132, 4]
    assert shape["ctas"] == 528
    assert shape["cta_slots"] == 132
    assert shape["waves"] == 4.0
    assert shape["tail_efficiency_ratio"] == 1.0
    assert shape["steps"] == 10
    assert shape["concurrent_steps"] == 4
    assert shape["flops"] == 11_072_962_560
    assert shape["minimal_bytes"] == 39_583_744
    assert shape["uncached_bytes"] == 528 * 256 * 640 * 2 + 16_896 * 512 * 2


def test_schedules_that_share_tiles(tmp_path):
    path = tmp_path / "shared.toml"
    path.write_text(
        '[kernel]\nname = "shared"\nop = "matmul"\n[tile]\nm = 64\nn = 64\n'
        "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\nsplit_k = 2\n"
        '[cluster]\nn = 2\n[raster]\norder = "n"\nwidth = 4\n'
    )
    told = figures(path, "--shape", "128,256,512")
    kernel, shape = told["kernel"], told["shape"]
    assert (kernel["cluster_m"], kernel["cluster_n"], kernel["split_k"]) == (1, 2, 2)
    assert (kernel["raster_order"], kernel["raster_width"]) == ("n", 4)
    assert (kernel["persistent"], kernel["swap_operands"]) == (False, False)
    assert (shape["grid"], shape["ctas"], shape["steps"]) == ([2, 4], 16, 4)
    refused = kgen("explain", path, "--shape", "64,64,64")
    assert refused.exit_code == 2
    assert (
        "m a multiple of 64 up to 4294967296, n of 128 and k of 128" in refused.stderr
    )


def test_stages_are_clamped_to_the_steps(spec):
    shape = figures(spec, "--shape", "128,128,128")["shape"]
    assert (shape["steps"], shape["concurrent_steps"]) == (2, 2)
    assert shape["tail_efficiency_ratio"] == 1 / 132


def test_roofline(spec):
    found = figures(spec, "--shape", "4096,4096,4096")["roofline"]
    assert found["device"] == "NVIDIA H200"
    assert found["peak_flops_per_s"] == 989e12
    assert found["hbm_bytes_per_s"] == 4.3e12
    assert found["compute_us"] == pytest.approx(138.9676, rel=1e-5)
    assert found["memory_us"] == pytest.approx(23.41007, rel=1e-5)
    assert found["bound"] == "compute"
    assert found["tiles_of_busiest_sm"] == 8
    assert found["quantised_us"] == pytest.approx(143.3104, rel=1e-5)


def test_registers_and_occupancy(spec):
    found = figures(spec)
    registers = found["registers"]
    assert registers["accumulator_per_thread"] == 128
    assert registers["compute_limit_per_thread"] == 255
    assert registers["memory_limit_per_thread"] is None
    estimate = registers["estimate_per_thread"]
    assert estimate == 128 + registers["other_per_thread"]
    assert registers["per_cta"] == 128 * (-(-estimate // 8) * 8)
    assert found["occupancy"] == {
        "ctas_per_sm": 1,
        "by_smem": 1,
        "by_registers": 65_536 // registers["per_cta"],
        "by_threads": 16,
    }


def test_a_warp_specialised_cta_holds_the_registers_it_shares_out(spec, tmp_path):
    text = SPEC + "[schedule]\nwarp_specialized = true\nmemory_registers = 40\n"
    (tmp_path / "ws.toml").write_text(text)
    found = figures("ws.toml")
    assert found["tile"]["threads_per_cta"] == 384
    assert found["tile"]["split"] == "m"
    assert (found["tile"]["wg_m"], found["tile"]["wg_n"]) == (64, 128)
    # Two compute warpgroups of 232 registers per thread and one of 40.
    assert found["registers"]["per_cta"] == 128 * (2 * 232 + 40) == 64_512
    assert found["occupancy"]["by_registers"] == 1


def test_without_tested_shapes_about_4096_each_way(spec):
    shape = figures("bare.toml")["shape"]
    assert (shape["m"], shape["n"], shape["k"]) == (4096, 4096, 4096)
    shape = figures("family.toml", "--variant", "bf16_128x96")["shape"]
    assert (shape["m"], shape["n"], shape["k"]) == (4096, 4128, 4096)


def test_every_variant_of_a_family(spec):
    outcome = kgen("explain", "family.toml", "--format", "json")
    names = [v["kernel"]["name"] for v in json.loads(outcome.stdout)["variants"]]
    assert names == ["bf16_128x64", "bf16_128x96"]


def test_why_a_swizzle_is_narrow(spec):
    layouts = figures("family.toml", "--variant", "bf16_128x96")["layouts"]
    assert [layout["swizzle_bytes"] for layout in layouts] == [64, 64, 64]
    assert layouts[0]["reason"] == (
        "widest legal: 128 B does not divide tile.n = 96 of bfloat16"
    )
    assert layouts[2]["reason"] == (
        "widest legal: 128 B does not divide store.n = 96 of bfloat16"
    )


def test_why_a_swizzle_is_as_asked(spec, tmp_path):
    (tmp_path / "narrow.toml").write_text(SPEC + "[transforms]\nswizzle = 32\n")
    layouts = figures("narrow.toml")["layouts"]
    assert layouts[0]["swizzle_bytes"] == 32
    assert layouts[0]["reason"] == "as the spec says; 64 B would be legal too"


def test_operands_are_called_as_the_module_calls_them(spec, tmp_path):
    (tmp_path / "gated.toml").write_text(
        '[kernel]\nname = "gated"\nop = "glu"\nlayout = "nt"\n'
        "[schedule]\nwarp_specialized = true\npersistent = true\n"
    )
    names = [layout["operand"] for layout in figures("gated.toml")["layouts"]]
    assert names == ["x", "w_gate", "w_up", "out"]
    text = kgen("explain", "gated.toml").stdout
    assert "  layout        nt: x is [m, k], w_gate and w_up are [n, k]\n" in text
    assert "  output        row: out is [m, n]\n" in text
    assert [layout["operand"] for layout in figures(spec)["layouts"]] == [
        "a",
        "b",
        "out",
    ]
    text = kgen("explain", spec).stdout
    assert "  layout        nn: A is [m, k], B is [k, n]\n" in text
    assert "  output        row: C is [m, n]\n" in text


def test_text_shows_every_figure_and_keeps_to_80_columns(spec):
    outcome = kgen("explain", spec)
    lines = outcome.stdout.splitlines()
    assert lines[0] == "fp16_128x128"
    assert "  dtypes        float16 x float16 -> float16" in lines
    assert "  tile m x n x k   128 x 128 x 64" in lines
    assert "SMEM of one CTA, 70.5% used" in lines
    assert "  free                                                 68,576" in lines
    assert "  tail efficiency       100.0%" in lines
    assert "  FLOP                  11,072,962,560" in lines
    assert "  roofline                 11.2 us, compute bound" in lines
    assert max(map(len, lines)) <= 80
    for fields in FIELDS.values():
        for field in fields.values():
            assert field.label in outcome.stdout
    assert not any(line != line.rstrip() for line in lines)


def test_a_shape_that_is_no_multiple_of_the_tile(spec):
    outcome = kgen("explain", spec, "--shape", "100,128,0")
    assert outcome.exit_code == 2
    assert outcome.stderr == (
        "error: fp16_128x128 cannot do --shape 100,128,0\n"
        "  m = 100 is not a positive multiple of 128\n"
        "  k = 0 is not a positive multiple of 64\n"
        "  allowed: m a multiple of 128 up to 8388480, n of 128 and k of 64 up to "
        "4294967296\n"
    )


def test_a_shape_that_is_too_large(spec):
    outcome = kgen("explain", spec, "--shape", f"{65_536 * 128},128,{2**33}")
    assert outcome.exit_code == 2
    assert "  m = 8388608 is more than 8388480\n" in outcome.stderr
    assert "  k = 8589934592 is more than 4294967296\n" in outcome.stderr


@pytest.mark.parametrize(
    "shape",
    ["", "1", "1,2", "1,2,3,4", "a,b,c", "1,2,3.0", "8x", "x1,2,3", "9" * 5000],
)
def test_a_shape_that_is_none(spec, shape):
    outcome = kgen("explain", spec, "--shape", shape)
    assert outcome.exit_code == 2
    assert outcome.stderr == (
        f"error: --shape {shape!r} is no size\n"
        "  allowed: M,N,K such as 4096,4096,4096, each of 12 digits at most; 64xM,N,K"
        " for a batch of 64\n"
    )


@pytest.mark.parametrize("shape", ["-128,128,64", "1,2,-3", "-8x128,128,64"])
@pytest.mark.parametrize("command", ["explain", "tune", "verify", "bench"])
def test_sizes_must_be_positive(spec, command, shape):
    outcome = kgen(command, spec, "--shape", shape)
    assert outcome.exit_code == 2
    assert f"--shape {shape!r} is no" in outcome.stderr
    assert outcome.stderr.endswith("\n  hint: sizes must be positive\n")


BATCHED = ROOT / "specs" / "batch" / "bf16_128x256_batched.toml"


def test_a_batch_is_the_work_of_all_its_matrices():
    of_one = figures(BATCHED, "--shape", "4096,4096,512")
    for text, batch in (("8x", [8]), ("2x4x", [2, 4])):
        found = figures(BATCHED, "--shape", f"{text}4096,4096,512")
        assert (found["shape"]["batch"], of_one["shape"]["batch"]) == (batch, [])
        for key in ("ctas", "waves", "flops", "minimal_bytes", "uncached_bytes"):
            assert found["shape"][key] == 8 * of_one["shape"][key], key
        for key in ("grid", "steps", "m", "intensity_flops_per_byte"):
            assert found["shape"][key] == of_one["shape"][key], key
        # 16 x 32 tiles of 8 matrices on 132 SMs.
        assert found["roofline"]["tiles_of_busiest_sm"] == 32
        for key in ("compute_us", "memory_us", "roofline_us"):
            assert found["roofline"][key] == pytest.approx(8 * of_one["roofline"][key])
    told = kgen("explain", BATCHED, "--shape", "2x4x4096,4096,512").stdout
    assert "  batch                 2 x 4\n" in told


def test_a_batch_of_what_takes_none(spec):
    outcome = kgen("explain", spec, "--shape", "8x128,128,64")
    assert (outcome.exit_code, outcome.stderr) == (
        2,
        "error: fp16_128x128 cannot do --shape 8x128,128,64\n"
        "  it takes no batch: shapes.batch = true would\n"
        "  allowed: m a multiple of 128 up to 8388480, n of 128 and k of 64 up to "
        "4294967296\n",
    )
    dispatched = ROOT / "specs" / "h200" / "matmul_h200.toml"
    outcome = kgen("explain", dispatched, "--shape", "8x128,128,64")
    assert (outcome.exit_code, outcome.stderr) == (
        2,
        "error: matmul_h200 takes no batch\n  allowed: M,N,K such as 4096,4096,4096\n",
    )


def test_a_batch_of_no_matrices_or_too_many():
    outcome = kgen("explain", BATCHED, "--shape", "0x128,128,64")
    assert outcome.exit_code == 2
    assert "--shape '0x128,128,64' is a product of nothing\n" in outcome.stderr
    outcome = kgen("explain", BATCHED, "--shape", f"{2**31}x128,256,64")
    assert outcome.exit_code == 2
    assert "  2147483648 matrices are more than 2147483647\n" in outcome.stderr


def test_an_unknown_variant(spec):
    outcome = kgen("explain", "family.toml", "--variant", "x")
    assert outcome.exit_code == 2
    assert outcome.stderr == (
        "error: no variant is called 'x'\n  allowed: bf16_128x64, bf16_128x96\n"
    )


def test_a_missing_file(spec):
    outcome = kgen("explain", "missing.toml")
    assert outcome.exit_code == 5
    assert "missing.toml" in outcome.stderr


def test_an_illegal_spec(spec, tmp_path):
    (tmp_path / "bad.toml").write_text(SPEC.replace("m = 128", "m = 100", 1))
    outcome = kgen("explain", "bad.toml")
    assert outcome.exit_code == 3
    assert "bad.toml:9: KG101 tile.m = 100 is not a multiple of 64" in outcome.stderr
