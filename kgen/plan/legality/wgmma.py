"""KG1xx: what the wgmma instruction can do."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.float8 import FLOAT8
from kgen.layouts import is_transposed
from kgen.plan.dtypes import ITEMSIZE
from kgen.plan.legality.base import Finding, rule
from kgen.rules import TRACE, multiples

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

PTX = "PTX ISA, Asynchronous Warpgroup Level Matrix Instructions (wgmma)"
WGMMA_M = 64
WGMMA_N_STEP = 8
WGMMA_N_MAX = 256


@rule(
    "KG101",
    title="tile.m is a multiple of 64 rows for every warpgroup that splits it",
    reason="One wgmma multiplies 64 rows. Warpgroups that split m each need a whole "
    "number of such instructions. With swapped operands this holds for tile.n.",
    source=PTX,
    bad="[tile]\nm = 100",
    good="[tile]\nm = 128",
    also_on=(TRACE,),
    allowable=True,
)
def tile_m(candidate: "Candidate") -> Iterator[Finding]:
    axis, size = _rows(candidate)
    parts = candidate.num_compute_wgs if candidate.split == axis else 1
    step = WGMMA_M * parts
    if size % step:
        whose = f" for each of {parts} compute warpgroups" if parts > 1 else ""
        yield Finding(
            f"tile.{axis}",
            f"tile.{axis} = {size} is not a multiple of {WGMMA_M}{whose}",
            multiples(step, 256),
            _whole_rows(candidate, axis, size, parts),
        )


def _whole_rows(candidate: "Candidate", axis: str, size: int, parts: int) -> str:
    """Returns what would give every warpgroup whole instructions."""
    if size % WGMMA_M:
        return "wgmma works on 64-row tiles; see `kgen rule KG101`"
    other = "m" if axis == "n" else "n"
    fewer = next(n for n in range(parts - 1, 0, -1) if not size % (WGMMA_M * n))
    fits = f"schedule.num_compute_wgs = {fewer}"
    if not candidate.swap_operands:  # Then warpgroups split n alone: see KG622.
        fits += f' or schedule.split = "{other}"'
    return f"{fits} fits; see `kgen rule KG101`"


def _rows(candidate: "Candidate") -> tuple[str, int]:
    """Returns the dimension of the tile that is M of wgmma, and its size."""
    tile = candidate.spec.tile
    return ("n", tile.n) if candidate.swap_operands else ("m", tile.m)


def _columns(candidate: "Candidate") -> tuple[str, int]:
    """Returns the dimension of the tile that is N of wgmma, and its size."""
    tile = candidate.spec.tile
    return ("m", tile.m) if candidate.swap_operands else ("n", tile.n)


@rule(
    "KG102",
    title="A warpgroup's columns are a multiple of 8 and at most 256",
    reason="N of one wgmma is a multiple of 8 up to 256, and Mosaic GPU issues one "
    "instruction for all columns of a warpgroup. With swapped operands these are rows "
    "of tile.m.",
    source=PTX,
    bad='[kernel]\nlayout = "nt"\n[dtypes]\nout = "float32"\n[tile]\nn = 20',
    good='[kernel]\nlayout = "nt"\n[dtypes]\nout = "float32"\n[tile]\nn = 24',
    also_on=(TRACE,),
    allowable=True,
)
def wgmma_n(candidate: "Candidate") -> Iterator[Finding]:
    axis, size = _columns(candidate)
    parts = candidate.num_compute_wgs if candidate.split == axis else 1
    step, top = WGMMA_N_STEP * parts, WGMMA_N_MAX * parts
    if size % step or size > top:
        whose = f" for {parts} compute warpgroups that split it" if parts > 1 else ""
        yield Finding(
            f"tile.{axis}",
            f"tile.{axis} = {size} is not a multiple of {step} up to {top}{whose}",
            multiples(step, top),
        )


@rule(
    "KG103",
    title="Columns of wgmma that are not K-major come in multiples of the swizzle",
    reason='With layout "nn" B lies in rows of n, and wgmma reads it in pieces of one '
    "swizzle width; so it does with an A in rows of m whose rows are columns of wgmma, "
    "as they are with swapped operands. Mosaic GPU answers other sizes with an empty "
    "AssertionError.",
    source="Mosaic GPU, wgmma and mma_utils; reproduced on a CPU",
    bad="[tile]\nn = 96\n[transforms]\nswizzle = 128",
    good="[tile]\nn = 96\n[transforms]\nswizzle = 64",
    also_on=(TRACE,),
    allowable=True,
)
def n_major_b(candidate: "Candidate") -> Iterator[Finding]:
    swizzle = candidate.b_layout.swizzle
    if candidate.columns_are_k_major or swizzle is None:
        return
    step, size = swizzle // candidate.itemsize, candidate.wgmma_columns
    axis, whole = _columns(candidate)
    if size % step:
        key = f"tile.{axis}"
        what = key if size == whole else f"a warpgroup's part of {key}"
        yield Finding(
            key,
            f"{what} = {size} is not a multiple of {step}, the {swizzle}-byte swizzle of "
            f"{candidate.spec.dtypes.b}",
            multiples(step, WGMMA_N_MAX),
            _more_columns(candidate, swizzle),
        )


def _more_columns(candidate: "Candidate", swizzle: int) -> str:
    of_a, of_b = candidate.layout[0], candidate.layout[1]
    layout = f"n{of_b}" if candidate.swap_operands else f"{of_a}t"
    if swizzle > candidate.arch.swizzles[-1]:
        return f'a narrower transforms.swizzle or layout = "{layout}" allows more sizes'
    return f'layout = "{layout}" allows multiples of 8'


@rule(
    "KG104",
    title="tile.k is a multiple of the swizzle",
    reason="A step of K is read in pieces of one swizzle width; a tail would be "
    "dropped or read from the next slot.",
    source="Mosaic GPU, wgmma; reproduced on a CPU",
    bad="[tile]\nk = 40",
    good="[tile]\nk = 64",
    also_on=(TRACE,),
    allowable=True,
)
def tile_k(candidate: "Candidate") -> Iterator[Finding]:
    swizzle, k = candidate.a_layout.swizzle, candidate.tile_k
    if swizzle is None:
        return
    step = swizzle // candidate.itemsize
    if k % step:
        yield Finding(
            "tile.k",
            f"tile.k = {k} is not a multiple of {step}, the {swizzle}-byte swizzle of "
            f"{candidate.spec.dtypes.a}",
            multiples(step, 256),
        )


@rule(
    "KG105",
    title="A and B have the same dtype, or 8-bit floats both",
    reason="wgmma takes one element type for both operands. Only float8_e4m3fn and "
    "float8_e5m2 go together.",
    source=PTX,
    bad='[dtypes]\na = "float16"\nb = "bfloat16"',
    good='[dtypes]\na = "bfloat16"\nb = "bfloat16"',
    also_on=(TRACE,),
)
def same_dtype(candidate: "Candidate") -> Iterator[Finding]:
    a, b = candidate.spec.dtypes.a, candidate.spec.dtypes.b
    allowed = FLOAT8 if a in FLOAT8 else (a,)
    if b not in allowed:
        yield Finding(
            "dtypes.b",
            f'dtypes.b = "{b}" differs from dtypes.a = "{a}"',
            " or ".join(f'"{dtype}"' for dtype in allowed),
        )


@rule(
    "KG106",
    title="The accumulator has a dtype that the operands allow",
    reason="bfloat16 and float32 operands accumulate in float32, int8 in int32. float16 and "
    "8-bit floats can accumulate in float16, too, which overflows at 65,504 and loses 13 "
    "bits on the way: in a spec it is refused.",
    source=PTX,
    bad='[dtypes]\naccumulator = "float16"',
    good='[dtypes]\naccumulator = "float32"',
    also_on=(TRACE,),
)
def accumulator(candidate: "Candidate") -> Iterator[Finding]:
    dtype = candidate.spec.dtypes.accumulator
    if dtype != "float32":
        yield Finding(
            "dtypes.accumulator", f'dtypes.accumulator = "{dtype}"', '"float32"'
        )


@rule(
    "KG107",
    title="Only 16-bit operands may be transposed",
    reason="wgmma reads float32 (tf32) and 8-bit operands K-major only: A as [m, k] and "
    "B as [n, k].",
    source=PTX + ", matrix descriptor; reproduced on a CPU",
    bad='[kernel]\nlayout = "nn"\n[dtypes]\na = "float32"\nb = "float32"',
    good='[kernel]\nlayout = "nt"\n[dtypes]\na = "float32"\nb = "float32"',
    also_on=(TRACE,),
    allowable=True,
)
def transposed(candidate: "Candidate") -> Iterator[Finding]:
    a_is_transposed, b_is_transposed = is_transposed(candidate.layout)
    a, b = candidate.spec.dtypes.a, candidate.spec.dtypes.b
    if a_is_transposed and ITEMSIZE[a] != 2:
        yield _not_k_major(candidate, "an M-major A", a, "[m, k]")
    if not b_is_transposed and ITEMSIZE[b] != 2:
        yield _not_k_major(candidate, "an N-major B", b, "[n, k]")


def _not_k_major(candidate: "Candidate", what: str, dtype: str, dims: str) -> Finding:
    return Finding(
        "kernel.layout",
        f'layout "{candidate.layout}" has {what}, which {dtype} cannot be',
        '"nt"',
        f'set kernel.layout = "nt" and pass {what[-1]} as {dims}; see `kgen rule KG107`',
    )
