"""The space that is tried: complete where it counts, free of what is illegal."""

import itertools

import made
import pytest
from oldest import newest_only

from kgen.errors import SpecError, UsageError
from kgen.spec.document import document_of
from kgen.spec.model import AnySpec, Spec
from kgen.spec.schema import spec_node
from kgen.spec.tune import MAX_CANDIDATES, axes, without
from kgen.tune import choose, session
from kgen.tune.candidate import Candidate
from kgen.tune.prune import DEEPEST, Pruner
from kgen.tune.space import default, of_axes

pytestmark = newest_only

NUM_SMS = 132
SPEC = Spec.model_validate({"kernel": {"name": "gemm", "op": "matmul"}})
LARGE = {
    "tile.m": 128,
    "tile.n": 256,
    "tile.k": 64,
    "pipeline.max_concurrent_steps": 4,
    "schedule.num_compute_wgs": 2,
    "schedule.persistent": True,
    "raster.order": "m",
    "cluster.m": None,
    "cluster.n": None,
}
# What was fastest on one H200.
FASTEST = {
    (4096, 8192, 4096): LARGE | {"raster.width": 16},
    (8192, 8192, 8192): LARGE
    | {
        "tile.k": 128,
        "pipeline.max_concurrent_steps": 2,
        "raster.order": "n",
        "raster.width": 4,
    },
    (4096, 4096, 4096): LARGE | {"raster.width": 4},
    (4096, 14336, 4096): LARGE | {"raster.width": 8},
    (2048, 2048, 2048): LARGE | {"schedule.persistent": None, "raster.width": 2},
    (1024, 1024, 1024): {
        "tile.m": 64,
        "tile.n": 128,
        "tile.k": 64,
        "pipeline.max_concurrent_steps": 8,
        "schedule.num_compute_wgs": 1,
    },
    (16896, 512, 640): {
        "tile.m": 128,
        "tile.n": 128,
        "tile.k": 64,
        "pipeline.max_concurrent_steps": 6,
        "schedule.persistent": True,
        "schedule.ping_pong": True,
        "raster.width": 2,
    },
    (512, 4096, 4096): {
        "tile.m": 128,
        "tile.n": 128,
        "tile.k": 64,
        "pipeline.max_concurrent_steps": 6,
        "cluster.m": 2,
    },
    (128, 4096, 14336): {
        "tile.m": 128,
        "tile.n": 64,
        "tile.k": 64,
        "pipeline.max_concurrent_steps": 8,
        "schedule.split_k": 2,
    },
    (64, 8192, 8192): {
        "tile.m": 64,
        "tile.n": 64,
        "tile.k": 64,
        "pipeline.max_concurrent_steps": 8,
        "schedule.num_compute_wgs": 1,
        "schedule.swap_operands": None,
    },
    (16, 8192, 8192): {
        "tile.m": 16,
        "tile.n": 64,
        "tile.k": 256,
        "pipeline.max_concurrent_steps": 5,
        "schedule.num_compute_wgs": 1,
        "schedule.swap_operands": True,
    },
}


def matches(candidate, values):
    return all(candidate.get(key) == value for key, value in values.items())


@pytest.fixture
def gemm(tmp_path):
    path = tmp_path / "gemm.toml"
    path.write_text('[kernel]\nname = "gemm"\nop = "matmul"\n')
    return path


@pytest.mark.parametrize("shape", FASTEST)
def test_the_default_space_has_what_was_fastest(shape, gemm):
    values = FASTEST[shape]
    found = [c for c in default(SPEC, shape, NUM_SMS) if matches(c, values)]
    assert found
    source, document = made_of(gemm)
    pruned = Pruner(source, document, shape).prune(found, deepest=True)
    assert pruned.legal, pruned.examples


@pytest.mark.parametrize("shape", [(128, 4096, 14336), (16, 8192, 8192)])
def test_what_was_fastest_is_measured_early(shape, gemm):
    subject = session.read(gemm, shape)
    ranks = [
        rank
        for rank, each in enumerate(subject.candidates)
        if matches(each.candidate, FASTEST[shape])
    ]
    assert ranks[0] < 25


def made_of(path):
    from kgen.spec.load import load_file

    (source,) = load_file(path)
    return source, document_of(path.read_text(), "gemm.toml")


@pytest.mark.parametrize("shape", FASTEST)
def test_the_default_space_is_of_a_size_that_can_be_planned(shape):
    candidates = list(default(SPEC, shape, NUM_SMS))
    assert 100 < len(candidates) < 10_000
    assert len(set(candidates)) == len(candidates)


def test_nothing_pointless_is_proposed():
    few = list(default(SPEC, (1024, 1024, 1024), NUM_SMS))
    assert not any(
        c.get("schedule.persistent") and 1024**2 // tile(c) <= NUM_SMS for c in few
    )
    many = list(default(SPEC, (8192, 8192, 8192), NUM_SMS))
    assert not any(c.get("schedule.split_k") for c in many)
    assert not any(c.get("schedule.swap_operands") for c in many)
    one_row = list(default(SPEC, (64, 8192, 8192), NUM_SMS))
    assert {c.get("raster.order") for c in one_row if c.get("tile.m") == 64} == {None}
    short = list(default(SPEC, (4096, 4096, 128), NUM_SMS))
    assert {c.get("pipeline.max_concurrent_steps") for c in short} == {2}


def tile(candidate):
    return candidate.get("tile.m") * candidate.get("tile.n")


def test_float32_has_shallower_steps():
    spec = SPEC.model_copy(
        update={"dtypes": SPEC.dtypes.model_copy(update={"a": "float32"})}
    )
    depths = {c.get("tile.k") for c in default(spec, (4096,) * 3, NUM_SMS)}
    assert depths == {32, 64}


HEAD = '[kernel]\nname = "gemm"\nop = "{op}"\n'
WS = "[schedule]\nwarp_specialized = true\npersistent = true\n"
FLOAT8 = '[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
SCALED = f'layout = "nt"\n{FLOAT8}[scales]\nblock = 128\n{WS}'
# What the catalogue has, with the size that it was measured at on one H200.
CATALOGUE = {
    "glu": (
        HEAD.format(op="glu") + WS,
        ((), (4096, 14336, 4096)),
        {
            "tile.m": 128,
            "tile.n": 128,
            "tile.k": 64,
            "pipeline.max_concurrent_steps": 4,
            "schedule.num_compute_wgs": 2,
            "raster.order": "m",
            "raster.width": 16,
        },
    ),
    "scales": (
        HEAD.format(op="matmul") + SCALED,
        ((), (4096, 8192, 4096)),
        {
            "tile.m": 128,
            "tile.n": 128,
            "tile.k": 128,
            "pipeline.max_concurrent_steps": 6,
            "schedule.persistent": True,
            "schedule.ping_pong": None,
            "raster.order": "m",
            "raster.width": 8,
        },
    ),
    "batch": (
        HEAD.format(op="matmul") + "[shapes]\nbatch = true\n" + WS,
        ((64,), (512, 512, 512)),
        {
            "tile.m": 128,
            "tile.n": 256,
            "tile.k": 64,
            "pipeline.max_concurrent_steps": 4,
            "schedule.persistent": True,
            "schedule.ping_pong": None,
            "raster.order": "m",
            "raster.width": 4,
        },
    ),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_default_space_has_what_the_catalogue_has(name, gemm):
    text, (batch, shape), values = CATALOGUE[name]
    gemm.write_text(text)
    subject = session.read(gemm, shape, batch)
    assert 50 < len(subject.candidates) < 2000
    found = [
        rank
        for rank, each in enumerate(subject.candidates)
        if matches(each.candidate, values)
    ]
    assert found
    assert found[0] < 60
    plans = [each.plan for each in subject.candidates]
    assert {plan.op for plan in plans} == {subject.source.spec.kernel.op}


def test_a_gated_unit_has_tiles_whose_two_sums_fit(gemm):
    gemm.write_text(CATALOGUE["glu"][0])
    subject = session.read(gemm, (4096, 6144, 4096))
    plans = [each.plan for each in subject.candidates]
    tiles = {(plan.tile_m, plan.tile_n, plan.num_compute_wgs) for plan in plans}
    assert {(128, 128, 2), (256, 64, 2), (64, 256, 2), (128, 64, 2)} <= tiles
    assert all(2 * p.wg_m * p.wg_n // 128 == p.registers.accumulator for p in plans)
    assert all(p.persistent and p.weights == 2 for p in plans)
    # All that is left out is so since it does not fit, or not in that shape.
    assert subject.pruned.by_rule.keys() <= {"KG401", "KG402", "shallow", "shape"}


def test_scaled_tiles_are_blocks_of_scales(gemm):
    gemm.write_text(CATALOGUE["scales"][0])
    for shape in ((4096, 8192, 4096), (64, 1024, 2048), (8, 1024, 2048)):
        source, _ = made_of(gemm)
        candidates = list(default(source.spec, shape, NUM_SMS))
        assert candidates
        for each in candidates:
            assert (each.get("tile.n"), each.get("tile.k")) == (128, 128)
            assert each.get("schedule.swap_operands") is None


@pytest.mark.parametrize(
    ("tried", "promoted"),
    [
        ("tile.k = [64, 128]\npipeline.promote = [true]", 128),
        ("tile.k = [128]\npipeline.promote = [true, false]", 0),
    ],
)
def test_all_candidates_are_compared_within_the_widest_tolerance(gemm, tried, promoted):
    text = HEAD.format(op="matmul") + f'layout = "nt"\n{FLOAT8}{WS}'
    gemm.write_text(f"{text}[tile]\nn = 128\n[tune]\n{tried}\n")
    subject = session.read(gemm, (256, 256, 256))
    assert len(subject.candidates) == 2
    assert subject.request.promoted == promoted


def test_the_matrices_of_a_batch_are_tiles_enough(gemm):
    gemm.write_text(CATALOGUE["batch"][0])
    source, _ = made_of(gemm)
    one = list(default(source.spec, (512, 512, 4096), NUM_SMS))
    assert not any(each.get("schedule.split_k") for each in one)
    assert not any(each.get("schedule.persistent") for each in one)
    many = list(default(source.spec, (512, 512, 4096), NUM_SMS, 64))
    assert any(each.get("schedule.persistent") for each in many)
    plain = list(default(SPEC, (512, 512, 4096), NUM_SMS))
    assert any(each.get("schedule.split_k") for each in plain)


@pytest.mark.parametrize(("m", "rows"), [(1, 8), (8, 8), (9, 16), (50, 64), (64, 64)])
def test_a_swapped_tile_of_any_edge_holds_all_rows(m, rows):
    shapes = SPEC.shapes.model_copy(update={"edge": "any"})
    spec = SPEC.model_copy(update={"shapes": shapes})
    candidates = default(spec, (m, 4096, 4096), NUM_SMS)
    swapped = [each for each in candidates if each.get("schedule.swap_operands")]
    assert {each.get("tile.m") for each in swapped} == {rows}


def test_an_edge_of_k_is_a_step():
    candidates = list(default(SPEC, (4096, 4096, 130), NUM_SMS))
    depth_64 = [each for each in candidates if each.get("tile.k") == 64]
    stages = {each.get("pipeline.max_concurrent_steps") for each in depth_64}
    assert stages == {2, 3}


def test_another_operation_has_no_default_space():
    spec = AnySpec.model_validate({"kernel": {"name": "s", "op": "scale"}})
    with pytest.raises(UsageError, match=r"no default space for the operation 'scale'"):
        list(default(spec, (64, 64, 64), NUM_SMS))


TUNE = "[tune]\ntile.m = [64, 128]\ntile.n = [64, 128, 256]\nraster.order = ['m']\n"


def test_a_table_is_tried_in_every_combination():
    found = axes(document_of(TUNE, "gemm.toml"), spec_node())
    candidates = list(of_axes(found))
    assert [c.values for c in candidates] == [
        (("tile.m", m), ("tile.n", n), ("raster.order", "m"))
        for m, n in itertools.product((64, 128), (64, 128, 256))
    ]
    assert candidates[0].label == 'tile.m=64 tile.n=64 raster.order="m"'


def test_a_table_of_too_many_is_refused():
    values = tuple(range(1, 300))
    too_many = {("tile", "m"): values, ("tile", "n"): values}
    with pytest.raises(UsageError, match=rf"89401 combinations\n.*{MAX_CANDIDATES}"):
        list(of_axes(too_many))


def pruner(tmp_path, text, shape):
    source = made.load(tmp_path, text)
    document = document_of((tmp_path / f"{source.name}.toml").read_text(), "gemm.toml")
    return Pruner(source, without(document), shape)


def candidate(**values):
    pairs = {key.replace("__", "."): value for key, value in values.items()}
    return Candidate(values=tuple(pairs.items()))


def test_what_rendering_refuses_is_pruned_by_its_rule(tmp_path):
    tried = [
        candidate(tile__m=128, tile__n=128),
        candidate(tile__m=100, tile__n=128),
        candidate(tile__m=192, tile__n=128),
        candidate(tile__m=128, tile__n=128, pipeline__max_concurrent_steps=60),
        candidate(tile__m="wide", tile__n=128),
        candidate(tile__m=None, tile__n=None),
    ]
    pruned = pruner(tmp_path, TUNE, (256, 256, 128)).prune(tried, deepest=False)
    assert [each.candidate for each in pruned.legal] == tried[:1]
    assert pruned.by_rule == {"KG101": 1, "shape": 1, "KG401": 1, "KG004": 1, "same": 1}
    assert pruned.total == 6
    assert pruned.examples["shape"] == (
        "tile.m=192 tile.n=128: m = 256 is not a positive multiple of 192"
    )
    assert "tile.m = 100 is not a multiple of 64" in pruned.examples["KG101"]


def test_a_value_that_is_left_out_is_taken_from_the_spec(tmp_path):
    text = "[tile]\nm = 64\nn = 64\n"
    prune = pruner(tmp_path, text, (128, 128, 128))
    assert prune.plan(candidate(tile__m=None)).plan.tile_m == 128
    assert prune.plan(candidate(tile__k=128)).plan.tile_m == 64


def test_a_kernel_takes_multiples_of_all_that_it_shares_out(tmp_path):
    text = "[schedule]\nwarp_specialized = true\n"
    prune = pruner(tmp_path, text, (128, 256, 192))
    with pytest.raises(SpecError, match="m = 128 is not a positive multiple of 256"):
        prune.plan(candidate(cluster__m=2))
    with pytest.raises(SpecError, match="k = 192 is not a positive multiple of 128"):
        prune.plan(candidate(schedule__split_k=2))
    assert prune.plan(candidate(cluster__n=2))


def test_only_the_deepest_rings_are_kept(tmp_path):
    tried = [
        candidate(tile__m=m, pipeline__max_concurrent_steps=stages)
        for m in (64, 128)
        for stages in (2, 3, 4, 5, 6)
    ]
    pruned = pruner(tmp_path, "", (256, 256, 512)).prune(tried, deepest=True)
    kept = [each.candidate.values[1][1] for each in pruned.legal]
    assert kept == [4, 5, 6] * 2
    assert pruned.by_rule == {"shallow": 2 * (5 - DEEPEST)}


def test_names_and_tests_are_no_part_of_a_candidate(tmp_path):
    one = pruner(tmp_path, "[tile]\nn = 64\n", (128, 128, 128))
    text = '[kernel]\ndoc = "A"\n[tile]\nn = 64\n[test]\ninputs = ["normal"]\n'
    (tmp_path / "other").mkdir()
    two = pruner(tmp_path / "other", text, (128, 128, 128))
    three = pruner(tmp_path, "[tile]\nn = 128\n", (128, 128, 128))
    same = candidate(tile__m=128)
    assert one.plan(same).digest == two.plan(same).digest
    assert one.plan(same).digest != three.plan(same).digest


def test_the_simplest_has_the_fewest_features_then_bytes_then_name(tmp_path):
    text = "[schedule]\nwarp_specialized = true\n"
    prune = pruner(tmp_path, text, (512, 512, 512))
    plain = prune.plan(candidate(raster__width=4, cluster__m=None))
    deep = prune.plan(candidate(pipeline__max_concurrent_steps=5))
    cluster = prune.plan(candidate(cluster__m=2))
    both = prune.plan(candidate(cluster__m=2, schedule__persistent=True))
    name = prune.plan(candidate(raster__width=2, cluster__m=None))
    order = sorted([both, cluster, deep, plain, name], key=choose.simplicity)
    assert order == [name, plain, deep, cluster, both]
