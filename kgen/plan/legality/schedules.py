"""KG6xx: schedules, entry points and what goes with them."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.legality.base import CHECKS, Finding, rule

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

MAX_COMPUTE_WGS = 3
ACCUMULATOR_COLUMNS = 8
PIPELINES = "JAX, plgpu.emit_pipeline"


WARP_SPECIALIZED = (
    "num_compute_wgs",
    "split",
    "memory_registers",
    "persistent",
    "ping_pong",
    "split_k",
    "swap_operands",
)


@rule(
    "KG601",
    title="Some keys belong to a warp-specialised schedule",
    reason="Without a memory warpgroup one warpgroup does everything. Keys about "
    "warpgroups would have no effect, and loads could not run ahead of a tile.",
    source="kgen",
    bad="[schedule]\nnum_compute_wgs = 2",
    good="[schedule]\nwarp_specialized = true\nnum_compute_wgs = 2",
)
def only_warp_specialized(candidate: "Candidate") -> Iterator[Finding]:
    spec, schedule = candidate.spec, candidate.spec.schedule
    if schedule.warp_specialized:
        return
    keys = [f"schedule.{key}" for key in WARP_SPECIALIZED if getattr(schedule, key)]
    keys += [f"cluster.{axis}" for axis in "mn" if getattr(spec.cluster, axis) > 1]
    keys += [f"raster.{key}" for key in ("order", "width") if getattr(spec.raster, key)]
    for key in keys:
        yield Finding(
            key,
            f"{key} is set, but warp_specialized is false",
            "warp_specialized = true, or without this key",
        )


@rule(
    "KG602",
    title="1 to 3 compute warpgroups",
    reason="With more, the registers of an SM leave too few for any accumulator worth "
    "having.",
    source="CUDA C++ Programming Guide: 65,536 registers per SM",
    bad="[tile]\nm = 256\n[schedule]\nwarp_specialized = true\nnum_compute_wgs = 4",
    good="[tile]\nm = 256\n[schedule]\nwarp_specialized = true\nnum_compute_wgs = 2",
    allowable=True,
)
def compute_wgs(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.num_compute_wgs > MAX_COMPUTE_WGS:
        yield Finding(
            "schedule.num_compute_wgs",
            f"num_compute_wgs = {candidate.num_compute_wgs}",
            f"1 to {MAX_COMPUTE_WGS}",
        )


@rule(
    "KG603",
    title="A pallas_call is not warp-specialised",
    reason="Its pipeline is `plgpu.emit_pipeline`; warp specialisation needs the "
    "other entry point.",
    source=PIPELINES,
    bad='[kernel]\nentry_point = "pallas_call"\n[schedule]\nwarp_specialized = true',
    good='[kernel]\nentry_point = "kernel"\n[schedule]\nwarp_specialized = true',
)
def pallas_call_is_plain(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.schedule == "pallas_call" and candidate.spec.schedule.warp_specialized:
        yield Finding(
            "schedule.warp_specialized",
            'warp_specialized = true with entry_point = "pallas_call"',
            'entry_point = "kernel"',
        )


@rule(
    "KG604",
    title="A pallas_call has a sequential dimension",
    reason="Only sequential dimensions are pipelined. With none, nothing is: every "
    "block of K would start a CTA of its own and overwrite the same output.",
    source=PIPELINES,
    bad='[kernel]\nentry_point = "pallas_call"\n[schedule]\n'
    'dimension_semantics = ["parallel", "parallel", "parallel"]',
    good='[kernel]\nentry_point = "pallas_call"\n[schedule]\n'
    'dimension_semantics = ["parallel", "parallel", "sequential"]',
)
def sequential(candidate: "Candidate") -> Iterator[Finding]:
    semantics = candidate.spec.schedule.dimension_semantics
    if semantics is not None and "sequential" not in semantics:
        yield Finding(
            "schedule.dimension_semantics",
            "dimension_semantics has no sequential dimension: nothing is pipelined",
            '["parallel", "parallel", "sequential"]',
        )


@rule(
    "KG605",
    title="k is the sequential dimension, m and n are parallel",
    reason="The accumulator lives as long as one output tile, so a CTA walks K and "
    "nothing else. Outputs that change along a sequential dimension would be stored "
    "under a predicate, which JAX's interpreter cannot run: such a kernel could not be "
    "simulated.",
    source="JAX, plgpu.emit_pipeline and its GPU interpreter",
    bad='[kernel]\nentry_point = "pallas_call"\n[schedule]\n'
    'dimension_semantics = ["sequential", "parallel", "sequential"]',
    good='[kernel]\nentry_point = "pallas_call"\n[schedule]\n'
    'dimension_semantics = ["parallel", "parallel", "sequential"]',
)
def walks_k(candidate: "Candidate") -> Iterator[Finding]:
    semantics = candidate.spec.schedule.dimension_semantics
    if semantics is None or "sequential" not in semantics:
        return
    if semantics != ("parallel", "parallel", "sequential"):
        yield Finding(
            "schedule.dimension_semantics",
            f"dimension_semantics = {str(list(semantics)).replace(chr(39), chr(34))}",
            '["parallel", "parallel", "sequential"]',
        )


@rule(
    "KG606",
    title="dimension_semantics belongs to a pallas_call",
    reason='With entry_point = "kernel" the grid is parallel and the pipeline walks K; '
    "the key would have no effect.",
    source="kgen",
    bad='[schedule]\ndimension_semantics = ["parallel", "parallel", "sequential"]',
    good='[kernel]\nentry_point = "pallas_call"\n[schedule]\n'
    'dimension_semantics = ["parallel", "parallel", "sequential"]',
)
def semantics_are_used(candidate: "Candidate") -> Iterator[Finding]:
    semantics = candidate.spec.schedule.dimension_semantics
    if semantics is not None and candidate.schedule != "pallas_call":
        yield Finding(
            "schedule.dimension_semantics",
            'dimension_semantics is set, but entry_point is "kernel"',
            'entry_point = "pallas_call", or without this key',
        )


@rule(
    "KG607",
    title="The output leaves in equal pieces",
    reason="A piece that does not divide a warpgroup's columns would leave a rest "
    "behind. Slots beyond the number of pieces would never be used.",
    source="kgen",
    bad="[store]\nn = 48",
    good="[store]\nn = 64",
)
def store_pieces(candidate: "Candidate") -> Iterator[Finding]:
    store, wg_n = candidate.spec.store, candidate.wg_n
    if candidate.schedule == "pallas_call":
        for key in ("n", "slots"):
            if getattr(store, key) != "auto":
                yield Finding(
                    f"store.{key}",
                    f'store.{key} is set, but entry_point is "pallas_call", which '
                    "stores whole blocks",
                    'entry_point = "kernel", or without this key',
                )
        return
    if candidate.store_n > wg_n or wg_n % candidate.store_n:
        yield Finding(
            "store.n",
            f"store.n = {candidate.store_n} does not divide the {wg_n} columns of a "
            "warpgroup",
            f"a divisor of {wg_n}",
        )
        return
    rows = math.ceil(candidate.wg_m / candidate.store_m)
    pieces = rows * wg_n // candidate.store_n * candidate.outputs
    if candidate.store_slots > pieces:
        yield Finding(
            "store.slots",
            f"store.slots = {candidate.store_slots} for {pieces} piece(s)",
            f"1 to {pieces}",
        )


@rule(
    "KG609",
    title="A piece of the output is a multiple of 8 columns",
    reason="An accumulator lies in registers in groups of 8 columns. For other pieces "
    "Mosaic GPU fails to infer a layout.",
    source="Mosaic GPU, WGMMA layout; reproduced on a CPU",
    bad='[dtypes]\nout = "float32"\n[store]\nn = 4',
    good='[dtypes]\nout = "float32"\n[store]\nn = 8',
    allowable=True,
)
def store_columns(candidate: "Candidate") -> Iterator[Finding]:
    n = candidate.store_n
    if candidate.schedule != "pallas_call" and n % ACCUMULATOR_COLUMNS:
        yield Finding(
            "store.n" if candidate.spec.store.n != "auto" else "tile.n",
            f"store.n = {n} is not a multiple of {ACCUMULATOR_COLUMNS}",
            f"multiples of {ACCUMULATOR_COLUMNS} that divide {candidate.wg_n}",
            follows=("tile.n",),
        )


@rule(
    "KG608",
    title="test.shapes are sizes that the kernel can do",
    reason="A rendered kernel takes multiples of its tile, and CUDA launches at most "
    "65,535 CTAs along m.",
    source="CUDA C++ Programming Guide, compute capability 9.0",
    bad="[test]\nshapes = [[100, 256, 512]]",
    good="[test]\nshapes = [[128, 256, 512]]",
)
def test_shapes(candidate: "Candidate") -> Iterator[Finding]:
    tile = candidate.spec.tile
    for shape in candidate.spec.test.shapes:
        for name, size, step in zip("mnk", shape, candidate.units, strict=True):
            if size % step:
                yield Finding(
                    "test.shapes",
                    f"{name} = {size} of {list(shape)} is not a multiple of {step}",
                    f"multiples of {step}",
                    follows=(f"tile.{name}",),
                )
        top = candidate.arch.max_grid_yz * tile.m
        if candidate.raster is None and shape[0] > top:
            yield Finding(
                "test.shapes",
                f"m = {shape[0]} of {list(shape)}",
                f"at most {top}",
                follows=("tile.m",),
            )


@rule(
    "KG610",
    title="A rule that verify.allow names is broken",
    reason="What is allowed and not needed hides the day on which it is broken by "
    "mistake.",
    source="kgen",
    bad='[verify]\nallow = ["KG402"]',
    good='[tile]\nm = 256\nn = 128\n[verify]\nallow = ["KG402"]',
)
def allowed_for_a_reason(candidate: "Candidate") -> Iterator[Finding]:
    for code in candidate.spec.verify.allow:
        if not any(CHECKS[code](candidate)):
            yield Finding(
                "verify.allow",
                f'verify.allow has "{code}", which is not broken',
                hint=f'remove "{code}"; see `kgen rule {code}`',
            )
