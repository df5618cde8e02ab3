"""Deadlocks are found at once, and told with every thread's place and barrier."""

import functools
import re
import time

import pytest
import simulated
from verify_requests import broken, request

from kgen.verify import verify

SMALL, RING = "small_matmul", "manual_ring"
HEAD = "deadlock: every thread waits at a barrier for good:\n"
SOON = 30.0
"""Seconds, far below the limit of a level; the kernels take 2 on a free machine."""


@pytest.fixture
def small(tmp_path):
    return functools.partial(simulated.failure, tmp_path, SMALL)


@pytest.fixture
def ring(tmp_path):
    return functools.partial(simulated.failure, tmp_path, RING)


@pytest.fixture
def line(tmp_path):
    return functools.partial(simulated.line_of, tmp_path)


@pytest.fixture(autouse=True)
def soon():
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SOON


def waits(line):
    """Returns the two waits of the kernel with a ring of its own."""
    return (
        line(RING, "barrier_wait(loaded"),
        line(RING, "barrier_wait(released"),
        line(RING, '"loaded"').partition(":")[2].partition(":")[0],
        line(RING, '"released"').partition(":")[2].partition(":")[0],
    )


def test_a_pipeline_with_no_more_stages_than_delay(small, line):
    spec = (
        "plgpu.BlockSpec((TILE_K, TILE_N), lambda ki: (ki, n), transforms=TRANSFORMS,"
        " delay_release=2)"
    )
    told = small(("_block((TILE_K, TILE_N), lambda ki: (ki, n))", spec))
    assert told == (
        f"{HEAD}  warpgroup 0 of CTA (0, 0): in the pipeline of"
        f" {line(SMALL, 'emit_pipeline')}  <- waits for the load of slot 0, 1 of 2"
        " arrivals\n"
        "hint: the pipeline never loads that slot: max_concurrent_steps must be larger"
        " than every delay_release"
    )


def test_a_slot_that_is_never_released(ring, line):
    told = ring(("plgpu.barrier_arrive(released.at[slot])", "pass"))
    loaded, released, loaded_line, released_line = waits(line)
    assert told == (
        f"{HEAD}"
        f"  warpgroup 0 of CTA (0, 0): {loaded}  <- waits for loaded[0] (line"
        f" {loaded_line}), 0 of 2 arrivals\n"
        f"  warpgroup 1 of CTA (0, 0): {released}  <- waits for released[0] (line"
        f" {released_line}), 0 of 1 arrival\n"
        "hint: nobody arrives at that barrier: a plgpu.barrier_arrive or a"
        " copy_gmem_to_smem with it is missing, or comes only after a wait that never"
        " ends"
    )


def test_more_arrivals_awaited_than_come(ring, line):
    told = ring(("num_arrivals=2", "num_arrivals=3"))
    loaded, *_ = waits(line)
    assert f"{loaded}  <- waits for loaded[0] (line" in told
    assert "), 2 of 3 arrivals\n" in told
    assert told.endswith(
        "hint: num_arrivals is 3 and only 2 came: count one for each copy_gmem_to_smem"
        " with that barrier and one for each barrier_arrive of a warpgroup"
    )


def test_a_warpgroup_that_ended_before(ring, line):
    told = ring(('lax.axis_index("wg") == 1', 'lax.axis_index("wg") == 7'))
    loaded, *_ = waits(line)
    assert told.startswith(f"{HEAD}  warpgroup 0 of CTA (0, 0): {loaded}  <- waits")
    assert "\n  warpgroup 1 of CTA (0, 0) has ended\n" in told
    assert (
        "hint: nobody arrives at that barrier before the other warpgroups end" in told
    )


def test_a_deadlock_of_a_single_warpgroup(small, line):
    wait = "    pl.run_scoped(plgpu.barrier_wait, plgpu.Barrier())\n"
    told = small(("    plgpu.commit_smem()\n", "    plgpu.commit_smem()\n" + wait))
    place = line(SMALL, "barrier_wait")
    assert told.startswith(f"{HEAD}  warpgroup 0 of CTA (0, 0): {place}  <- waits for")
    assert "barrier (line 58), 0 of 1 arrival\n" in told


def test_a_pipeline_whose_consumers_do_not_release(tmp_path, line):
    kernel = "fp16_128x128_ws"
    told = simulated.failure(
        tmp_path,
        kernel,
        ('wg_axis="wg",\n', 'wg_axis="wg", manual_consumed_barriers=True,\n'),
        (
            "def _multiply(_, a_smem, b_smem, acc)",
            "def _multiply(_, a_smem, b_smem, a, b, acc)",
        ),
        sizes=((128, 128, 320),),
    )
    compute = (
        f"in the pipeline of {line(kernel, 'run_pipeline(acc)')}  <- waits for the load"
        " of slot 0, 0 of 2 arrivals\n"
    )
    memory = f"in the pipeline of {line(kernel, 'emit_pipeline_warp')}  <- waits for"
    assert told == (
        f"{HEAD}  warpgroup 0 of CTA (0, 0): {compute}"
        f"  warpgroup 1 of CTA (0, 0): {compute}"
        f"  warpgroup 2 of CTA (0, 0): {memory} slot 0 to be released, 0 of 2 arrivals\n"
        "hint: not every compute warpgroup releases that slot: 2 of them must arrive"
        " once per step (num_compute_wgs; manual_consumed_barriers)"
    )


@pytest.mark.filterwarnings("ignore:jax.experimental.pallas.core_map")
def test_a_warp_that_waits(ring, line):
    loop = "        @pl.loop(0, steps)\n        def _step(step):\n            slot = lax.rem(step, STAGES)\n\n            @pl.when(step >= STAGES)"
    warps = (
        '        @pl.core_map(plgpu.WarpMesh(axis_name="warp"))\n'
        "        def _warps():\n"
        '            @pl.when(lax.axis_index("warp") == 2)\n'
        "            def _third():\n"
        "                plgpu.barrier_wait(released.at[1])\n\n"
    )
    told = ring((loop, warps + loop))
    wait = line(RING, "released.at[1]")
    assert f"  warp 2 of warpgroup 1 of CTA (0, 0): {wait}  <- waits for" in told


def test_every_cta_of_a_cluster_is_told(ring):
    told = ring(
        (
            'grid_names=("m", "n"),',
            'grid_names=("m", "n"), cluster=(2,), cluster_names=("x",),',
        ),
        ("plgpu.barrier_arrive(released.at[slot])", "pass"),
    )
    assert [line.partition(": ")[0] for line in told.splitlines()[1:5]] == [
        f"  warpgroup {wg} of CTA (0, 0, {x})" for wg in (0, 1) for x in (0, 1)
    ]


def test_the_next_kernel_is_not_taken_for_a_deadlock(ring, small, line):
    ring(("plgpu.barrier_arrive(released.at[slot])", "pass"))
    assert small(("    plgpu.commit_smem()\n", "")).startswith("data race on out_smem")


def test_a_slow_thread_is_no_deadlock(tmp_path, monkeypatch):
    """Everybody else waits all the while."""
    from jax._src.pallas.mosaic_gpu.interpret import shared_memory

    memory, late = shared_memory.GPUSharedMemory, []
    reach = memory.get_barrier_and_increment_clock

    def reach_late(self, *args, **kwargs):
        if len(late) < 2:
            late.append(self)
            time.sleep(1.5)
        return reach(self, *args, **kwargs)

    monkeypatch.setattr(memory, "get_barrier_and_increment_clock", reach_late)
    simulated.run(tmp_path, RING)
    assert len(late) == 2


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "num_arrivals=2",
            "num_arrivals=1",
            r"(loaded|released)\[\d\] \(line \d+\) (has completed|may complete|complete)",
        ),
        (
            "plgpu.barrier_wait(released.at[slot])",
            "pass",
            # Who misses it depends on who comes first.
            r"(loaded|released)\[\d\] \(line \d+\) (has completed|may complete|complete)",
        ),
    ],
)
def test_a_completion_that_is_missed(old, new, problem, ring):
    told = ring((old, new))
    lines = told.splitlines()
    assert re.match(problem, lines[0])
    assert lines[1].startswith("  manual_ring.py:")
    assert lines[2].startswith("hint: a barrier remembers one completion")


def test_arrivals_left_over_at_the_end(small, line):
    body = (
        "    def arrive(barrier):\n"
        "        plgpu.barrier_arrive(barrier)\n"
        "    pl.run_scoped(arrive, barrier=plgpu.Barrier(num_arrivals=2))\n"
    )
    told = small(("    plgpu.commit_smem()\n", body + "    plgpu.commit_smem()\n"))
    scope = line(SMALL, "run_scoped(arrive")
    assert told.startswith(
        "the kernel ends with 1 of 2 arrivals at barrier (line 59):\n"
        f"  {scope}\n"
        "hint: an arrival is missing or one too many: count one for each"
    )


def test_a_loop_without_end_is_told_by_its_line():
    loop = (
        "    def again(value):\n"
        "        return value + jnp.int32(out_smem[0, 0])\n"
        "    jax.lax.while_loop(lambda value: value < 1, again, jnp.int32(0))\n"
    )
    source = broken(
        (
            "    out_smem[...] =",
            "    out_smem[...] = jnp.zeros((TILE_M, TILE_N), DTYPE)\n"
            + loop
            + "    out_smem[...] =",
        ),
    )
    verdict = verify(
        request(source, ((64, 64, 64),)), levels=("simulate",), timeout=10, cache=False
    )
    number = source[: source.index("value + jnp")].count("\n") + 1
    assert (
        f"it was at small_matmul.py:{number}: return value + jnp.int32(out_smem[0, 0])"
        " (warpgroup 0 of CTA (0, 0))"
    ) in verdict.failure.detail


def test_a_load_that_nobody_waits_for(ring):
    """The last step is loaded and never used: its copy outlives the CTA."""
    loop = "def accumulate(acc):\n            @pl.loop(0, steps{})"
    told = ring((loop.format(""), loop.format(" - 1")), sizes=((64, 64, 128),))
    first, second, third = told.splitlines()
    assert re.match(
        r"a load into SMEM is in flight when the kernel ends: nobody has waited for it at"
        r" loaded\[1\] \(line \d+\)",
        first,
    )
    assert second.startswith("  manual_ring.py:")
    assert third.startswith(
        "hint: wait (plgpu.barrier_wait) for every copy_gmem_to_smem"
    )
