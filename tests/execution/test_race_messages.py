"""What the simulator says of a data race: where, between which lines, what to change."""

import functools

import pytest
import simulated

SMALL, RING = "small_matmul", "manual_ring"
WGMMA_WAIT = ("    plgpu.wgmma_wait(0)\n", "    pass\n")
NO_DELAY = (", delay_release=DELAY_RELEASE", "")
STORE = "plgpu.copy_smem_to_gmem("


@pytest.fixture
def small(tmp_path):
    return functools.partial(simulated.failure, tmp_path, SMALL)


@pytest.fixture
def ring(tmp_path):
    return functools.partial(simulated.failure, tmp_path, RING)


@pytest.fixture
def line(tmp_path):
    return functools.partial(simulated.line_of, tmp_path)


def test_a_slot_loaded_anew_under_a_wgmma_without_delay_release(small, line):
    told = small(WGMMA_WAIT, NO_DELAY)
    spec = line(SMALL, "BlockSpec(").rpartition(": ")[0]
    assert told == (
        "data race on slot 0 of the ring of a (float16[2, 64, 64] in SMEM), pipeline"
        " step 2:\n"
        f"  {line(SMALL, 'wgmma(')}  <- step 0's wgmma may still be reading it\n"
        f"  {line(SMALL, 'emit_pipeline')}  <- loads step 2's tile\n"
        "  and the same on slot 1 and on the ring of b\n"
        "hint: a wgmma is still in flight when its step ends: set delay_release=1 on"
        f" the plgpu.BlockSpec of a and b ({spec}), or wait for it in the step with"
        " plgpu.wgmma_wait(0)"
    )


def test_a_slot_loaded_anew_under_a_wgmma_with_too_little_delay(small, line):
    told = small(WGMMA_WAIT)
    assert f"raise delay_release to 1 ({line(SMALL, 'DELAY_RELEASE = 0')})" in told


def test_one_block_spec_of_two_without_delay_release(small, line):
    other = (
        "plgpu.BlockSpec((TILE_K, TILE_N), lambda ki: (ki, n), transforms=TRANSFORMS)"
    )
    told = small(
        ("plgpu.wgmma_wait(0)", "plgpu.wgmma_wait(1)"),
        ("STAGES = 2\nDELAY_RELEASE = 0", "STAGES = 3\nDELAY_RELEASE = 1"),
        ("_block((TILE_K, TILE_N), lambda ki: (ki, n))", other),
    )
    spec = line(SMALL, other).partition(": ")[0]
    assert "data race on slot 0 of the ring of b (float16[3, 64, 64]" in told
    assert f"set delay_release=1 on the plgpu.BlockSpec of b ({spec})" in told


def test_a_ring_of_the_kernels_own_under_a_wgmma(ring, line):
    told = ring(("                plgpu.wgmma_wait(0)\n", ""))
    assert told.startswith(
        "data race on slot 0 of a_ring, loaded from a (float16[2, 64, 64] in SMEM),"
        " load 2:\n"
        f"  {line(RING, 'wgmma(')}  <- the wgmma may still be reading it (load 0,"
        " warpgroup 0 of CTA (0, 0))\n"
        f"  {line(RING, 'a_ring.at[slot], loaded')}  <- load 2 writes it (warpgroup 1"
        " of CTA (0, 0))\n"
        "  and the same on slot 1\n"
        "hint: SMEM is loaded anew while it is still in use: wait for the wgmma"
        " (plgpu.wgmma_wait(0)), then arrive at a barrier (plgpu.barrier_arrive)"
    )


def test_a_wgmma_that_does_not_wait_for_its_load(ring, line):
    wait = "                plgpu.barrier_wait(loaded.at[slot])\n"
    told = ring((wait, ""), sizes=((64, 64, 64),))
    read, load = line(RING, "wgmma("), line(RING, "a_ring.at[slot], loaded")
    assert read in told
    assert load in told
    assert "data race on slot 0 of a_ring, loaded from a (float16[2, 64, 64]" in told
    assert (
        "hint: wait for the load's barrier with plgpu.barrier_wait before SMEM" in told
    )


def test_a_value_read_before_its_load_is_waited_for(small, line):
    """As a residual that is added in the epilogue."""
    load = (
        "    def other(barrier):\n"
        "        rows, columns = pl.ds(m * TILE_M, TILE_M), pl.ds(0, TILE_K)\n"
        "        plgpu.copy_gmem_to_smem(a_gmem.at[rows, columns], out_smem, barrier)\n"
        "        value = out_smem[...]\n"
        "        plgpu.barrier_wait(barrier)\n"
        "        return value\n"
        "    residual = pl.run_scoped(other, plgpu.Barrier())\n"
        "    out_smem[...] = (acc + residual).astype(DTYPE)\n"
    )
    told = small(("    out_smem[...] = acc.astype(DTYPE)\n", load))
    assert told == (
        "data race on out_smem, loaded from a (float16[64, 64] in SMEM), load 0:\n"
        f"  {line(SMALL, 'copy_gmem_to_smem(')}  <- load 0 may still be writing it\n"
        f"  {line(SMALL, 'value = out_smem')}  <- reads it (load 0)\n"
        "hint: wait for the load's barrier with plgpu.barrier_wait before SMEM is read"
    )


def test_a_store_that_was_not_committed(small, line):
    assert small(("    plgpu.commit_smem()\n", "")) == (
        "data race on out_smem (float16[64, 64] in SMEM):\n"
        f"  {line(SMALL, 'out_smem[...] =')}  <- writes it\n"
        f"  {line(SMALL, STORE)}  <- the store reads it\n"
        "hint: TMA sees what was stored to SMEM only after plgpu.commit_smem(): call it"
        " between the two lines"
    )


def test_smem_rewritten_under_a_store(small, line):
    again = (
        "    plgpu.wait_smem_to_gmem(1, wait_read_only=True)\n"
        "    out_smem[...] = acc.astype(DTYPE)\n"
        "    plgpu.wait_smem_to_gmem(0)\n"
    )
    told = small(("    plgpu.wait_smem_to_gmem(0)\n", again))
    assert told.startswith("data race on out_smem (float16[64, 64] in SMEM):\n")
    assert f"  {line(SMALL, STORE)}  <- the store may still be reading it\n" in told
    assert "wait_smem_to_gmem(n, wait_read_only=True) before that is written" in told


def test_ctas_that_write_one_place(small, line):
    told = small(
        ("out_gmem.at[rows, columns]", "out_gmem.at[columns, columns]"),
        sizes=((128, 128, 64),),
    )
    store = line(SMALL, STORE)
    assert told == (
        "data race on [0:64, 0:64] of out (float16[128, 128] in GMEM):\n"
        f"  {store}  <- the store may still be writing it (warpgroup 0 of CTA (0, 0))\n"
        f"  {store}  <- the store writes it (warpgroup 0 of CTA (1, 0))\n"
        "  and the same on [64:128, 64:128]\n"
        "hint: two CTAs write the same place, in no order: the index must contain every"
        " axis of the grid, and each CTA its own part of the result"
    )


def test_warpgroups_that_write_one_place(ring, line):
    first = '    rows = pl.ds(lax.axis_index("m")'
    told = ring((first, "    out_smem[...] = jnp.ones((TILE, TILE), DTYPE)\n" + first))
    write = line(RING, "jnp.ones(")
    assert told.startswith("data race on out_smem (float16[64, 64] in SMEM):\n")
    assert told.count(f"  {write}  <- writes it (warpgroup") == 2
    assert (
        "hint: nothing orders the two warpgroups: let one arrive at a barrier" in told
    )


def test_a_kernel_that_ends_with_a_store_in_flight(small, line):
    assert small(("    plgpu.wait_smem_to_gmem(0)\n", "")) == (
        "warpgroup 0 of CTA (0, 0) ends while a store is in flight that still reads"
        " out_smem (float16[64, 64] in SMEM):\n"
        f"  {line(SMALL, STORE)}\n"
        "hint: SMEM must outlive the store: end the kernel with"
        " plgpu.wait_smem_to_gmem(0)"
    )
