"""Sizes that are no multiples of anything, with every schedule and layout."""

import dataclasses
import runpy

import pytest
from alone import NO_KGEN, run_tests
from made import plan
from oldest import every_third

from kgen.emit.render import render
from kgen.pipeline import request_of
from kgen.verify import RequestCase

ANY = '[shapes]\nedge = "any"\n'
RING = "[pipeline]\nmax_concurrent_steps = 2\n"
TWO_WGS = "[schedule]\nwarp_specialized = true\n"
ONE_WG = TWO_WGS + "num_compute_wgs = 1\n"
PERSISTENT, SPLIT_2 = "persistent = true\n", "split_k = 2\n"
SPLIT_N, SWAPPED = 'split = "n"\n', "swap_operands = true\n"
CLUSTER_M, CLUSTER_N = "[cluster]\nm = 2\n", "[cluster]\nn = 2\n"
ACROSS_N = '[raster]\norder = "n"\nwidth = 3\n'
PIECES_OF_64 = "[store]\nn = 64\nslots = 2\n"
CALL = 'entry_point = "pallas_call"\n'
TILE = "[tile]\nm = 64\nn = 64\n"
FLOAT32 = '[dtypes]\na = "float32"\nb = "float32"\n'
FP16_TO_FLOAT32 = '[dtypes]\na = "float16"\nb = "float16"\nout = "float32"\n'

# The layout and order, the other tables, and sizes (m, n, k) with SMs.
KERNELS = {
    "pipelined": ("nn", "row", TILE, (((1, 1, 1), None), ((65, 63, 129), None))),
    "pipelined_tn": ("tn", "column", TILE, (((67, 7, 3), None), ((61, 130, 65), None))),
    "pallas_call": ("nn", "row", CALL + TILE, (((65, 63, 129), None),)),
    "pallas_call_tt": ("tt", "column", CALL + TILE, (((65, 127, 67), None),)),
    "plain_rows": (
        "nt",
        "row",
        FP16_TO_FLOAT32 + "[tile]\nm = 64\nn = 24\n",
        (((5, 26, 65), None),),
    ),
    "tf32": ("nt", "row", FLOAT32 + TILE, (((66, 63, 37), None),)),
    "two_warpgroups": (
        "tn",
        "row",
        "[tile]\nm = 128\nn = 64\n" + TWO_WGS,
        (((131, 61, 129), None), ((63, 67, 2), None)),
    ),
    "split_n": (
        "nn",
        "row",
        "[tile]\nm = 64\nn = 128\n" + TWO_WGS + SPLIT_N,
        (((3, 67, 65), None),),
    ),
    # Two tiles of one CTA and a single one of another; and one CTA with all of them.
    "persistent": (
        "nn",
        "row",
        TILE + ONE_WG + PERSISTENT,
        (((131, 63, 253), 2), ((65, 66, 67), 1), ((1, 1, 1), 132)),
    ),
    "persistent_tt": (
        "tt",
        "column",
        TILE + ONE_WG + PERSISTENT,
        (((63, 131, 129), 2),),
    ),
    "ping_pong": (
        "tt",
        "row",
        TILE + TWO_WGS + PERSISTENT + "ping_pong = true\n",
        (((131, 63, 253), 2),),
    ),
    # The last cluster has a CTA beyond the edge; or the only one has.
    "persistent_cluster_m": (
        "nt",
        "row",
        TILE + ONE_WG + PERSISTENT + CLUSTER_M + ACROSS_N,
        (((129, 63, 253), 2), ((61, 131, 65), 4)),
    ),
    "pieces_in_cluster_n": (
        "tn",
        "row",
        "[tile]\nm = 64\nn = 128\n" + ONE_WG + CLUSTER_N + PIECES_OF_64,
        (((65, 1, 131), None), ((5, 257, 63), None)),
    ),
    # A part of K that is wholly beyond the end, and one that is in part.
    "split_k": (
        "nn",
        "row",
        TILE + ONE_WG + SPLIT_2,
        (((65, 63, 3), None), ((3, 66, 131), None)),
    ),
    "split_k_turned": (
        "tt",
        "column",
        TILE + ONE_WG + SPLIT_2,
        (((67, 61, 130), None),),
    ),
    "swapped": (
        "nn",
        "row",
        "[tile]\nm = 8\nn = 64\n" + ONE_WG + SWAPPED,
        (((1, 65, 129), None), ((11, 61, 3), None)),
    ),
    "swapped_column": (
        "nt",
        "column",
        "[tile]\nm = 16\nn = 64\n" + ONE_WG + SWAPPED + PERSISTENT,
        (((17, 129, 65), 2),),
    ),
}


@pytest.mark.parametrize("name", every_third((each,) for each in KERNELS))
def test_every_size_passes(name, prover, tmp_path):
    layout, order, tables, sizes = KERNELS[name]
    kernel = f'[kernel]\nlayout = "{layout}"\nout_order = "{order}"\n'
    made = plan(tmp_path, kernel + tables + RING + ANY, name)
    cases = tuple(
        RequestCase(m=m, n=n, k=k, smem_bytes=smem(made, k), num_sms=sms)
        for (m, n, k), sms in sizes
    )
    request = request_of(made, render(made, verified=False, prove=False))
    verdict = prover.verify(dataclasses.replace(request, cases=cases), x64=False)
    assert verdict.passed, str(verdict.failure)


def smem(made, k):
    """SMEM as planned where the ring is full; not told otherwise."""
    return made.smem.total if made.steps(k) >= made.max_concurrent_steps else None


@pytest.fixture
def alone(tmp_path):
    """A kernel for every size, and its own test."""
    rendered = render(
        plan(tmp_path, TILE + RING + ANY, "ragged"), verified=False, prove=False
    )
    (tmp_path / "ragged.py").write_text(rendered.source, "utf-8")
    (tmp_path / "test_ragged.py").write_text(rendered.test_source, "utf-8")
    (tmp_path / "kgen.py").write_text(NO_KGEN)
    return tmp_path


def test_a_module_passes_its_own_test(alone):
    done = run_tests(alone)
    assert done.returncode == 0, done.stdout
    # Six sizes, normal values, the reference, three without elements, and refusals.
    assert "14 passed, 1 skipped" in done.stdout


@pytest.mark.parametrize(
    ("right", "wrong", "test", "told"),
    [
        ("[:m, :n]", "", "integers and 1-1-1", "padding is not cut off"),
        (
            "pl.cdiv(k, TILE_K)",
            "max(1, k // TILE_K)",
            "integers and 63-65-193",
            "a K tail, the last 1 of k",
        ),
        (
            "if 0 in (m, n, k):",
            "if 0 in (m, n):",
            "8-8-0",
            "_without_elements_or_terms",
        ),
    ],
)
def test_its_own_test_tells_what_is_wrong_at_the_edge(alone, right, wrong, test, told):
    text = (alone / "ragged.py").read_text("utf-8")
    assert right in text
    (alone / "ragged.py").write_text(text.replace(right, wrong), "utf-8")
    done = run_tests(alone, "-k", test)
    assert done.returncode == 1
    assert told in done.stdout


@pytest.mark.parametrize(
    ("shape", "padded"),
    [
        # As it is: rows of 16 bytes, less than a tiling or whole ones.
        ((1, 8), (1, 8)),
        ((7, 24), (7, 24)),
        ((8, 64), (8, 64)),
        ((16, 4032), (16, 4032)),
        # Rows to 16 bytes, beyond a tiling to whole ones.
        ((1, 1), (1, 8)),
        ((9, 65), (16, 128)),
        ((4096, 4100), (4096, 4160)),
        ((4100, 4096), (4104, 4096)),
    ],
)
def test_an_operand_is_padded_no_more_than_tma_needs(shape, padded, alone):
    ragged = runpy.run_path(str(alone / "ragged.py"))
    assert ragged["_padded"](shape, ragged["DTYPE"], ragged["TILING"]) == padded
