"""Operands, times and peers: what measuring is made of, as far as a CPU shows it."""

import dataclasses
import itertools
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kgen.errors import UsageError
from kgen.layouts import LAYOUTS, OUT_ORDERS
from kgen.measure import correct, example, machine, operands, peers, timing
from kgen.measure.problem import Problem

PROBLEM = Problem(shape=(64, 128, 256), operand_dtype="bfloat16", out_dtype="bfloat16")
LARGE = dataclasses.replace(PROBLEM, shape=(4096, 8192, 4096))
NT_PROBLEM = dataclasses.replace(PROBLEM, layout="nt")
SMALL_PROBLEM = Problem(shape=(8, 4, 16), operand_dtype="float32", out_dtype="float32")


@pytest.mark.parametrize(
    ("operand_bytes", "l2_bytes", "count"),
    [(100, 1000, 30), (101, 1000, 30), (10, 1000, 32), (10_000, 1000, 1), (50, 25, 2)],
)
def test_operands_go_beyond_l2_three_times_within_bounds(
    operand_bytes, l2_bytes, count
):
    assert operands.count_sets(operand_bytes, l2_bytes) == count


def test_operands_are_normal_distinct_and_the_same_every_time():
    sets = operands.draw(NT_PROBLEM, l2_bytes=65_536)
    assert [(a.shape, b.shape) for a, b in sets] == [((64, 256), (128, 256))] * 2
    assert {each.dtype for pair in sets for each in pair} == {jnp.dtype("bfloat16")}
    values = [np.asarray(each, np.float64) for pair in sets for each in pair]
    for each in values:
        assert abs(each.mean()) < 0.05
        assert abs(each.std() - 1) < 0.05
        # Drawn in bfloat16, a few hundred values would come again and again.
        assert len(np.unique(each)) > 1500
    for left, right in itertools.combinations(values, 2):
        assert not np.array_equal(left.ravel()[:100], right.ravel()[:100])
    again = operands.draw(NT_PROBLEM, l2_bytes=65_536)
    for left, right in zip(jax.tree.leaves(sets), jax.tree.leaves(again), strict=True):
        assert np.array_equal(left, right)


def test_bytes_and_operations_of_a_problem():
    for layout, a, b in (
        ("nn", (64, 256), (256, 128)),
        ("nt", (64, 256), (128, 256)),
        ("tn", (256, 64), (256, 128)),
        ("tt", (256, 64), (128, 256)),
    ):
        problem = dataclasses.replace(PROBLEM, layout=layout)
        assert problem.operand_shapes == (a, b)
        assert problem.operand_bytes == 2 * (64 * 256 + 256 * 128)
        assert problem.work.flops == 2 * 64 * 128 * 256
        assert problem.work.minimal_bytes == problem.operand_bytes + 2 * 64 * 128


def test_bytes_and_operations_of_a_batch():
    one = Problem(shape=(64, 128, 32), operand_dtype="float16", out_dtype="float16")
    many = dataclasses.replace(one, batch=(3, 2), layout="nt", out_order="column")
    assert many.operand_shapes == ((3, 2, 64, 32), (3, 2, 128, 32))
    assert many.out_shape == (3, 2, 128, 64)
    assert many.operand_bytes == 6 * one.operand_bytes
    assert many.work.flops == 6 * one.work.flops
    assert many.work.minimal_bytes == 6 * one.work.minimal_bytes
    assert str(many) == "batch=[3, 2], m=64, n=128, k=32"


@pytest.mark.parametrize("elements", [1, 70, 10**6])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_products_on_the_host_are_made_of_some_columns_at_a_time(
    monkeypatch, elements, batch
):
    monkeypatch.setattr(correct, "COLUMN_ELEMENTS", elements)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (*batch, *size)) for size in ((5, 6), (6, 7)))
    product, magnitude = correct.in_float64(a.astype(np.float16), b.astype(np.float16))
    assert product.dtype == magnitude.dtype == np.float64
    assert np.array_equal(product, a @ b)
    assert np.array_equal(magnitude, np.abs(a) @ np.abs(b))


def test_an_executable_calls_the_function_on_every_set():
    sets = operands.draw(SMALL_PROBLEM, l2_bytes=800)
    compiled = timing.compile_each(lambda a, b: a @ b, sets)
    assert compiled.calls == len(sets) == 4
    for product, (a, b) in zip(compiled.run(sets), sets, strict=True):
        np.testing.assert_allclose(product, a @ b, rtol=1e-5)


def test_executables_take_turns_and_each_begins_a_round():
    turns = []

    def measure(run, sets, runs):
        turns.append(run)
        return [1.0, 30.0, 20.0]

    def named(name):
        run = lambda sets: name  # noqa: E731
        names[run] = name
        return timing.Compiled(run=run, calls=4)

    names = {}
    executables = {name: named(name) for name in "abc"}
    samples = timing.interleave(executables, [(1, 2)], rounds=4, measure=measure)
    assert "".join(names[run] for run in turns) == "abcbcacababc"
    # The median of the runs, for one of the four calls.
    assert samples == dict.fromkeys("abc", timing.Samples(us=(5.0,) * 4))


def test_at_least_one_round():
    with pytest.raises(ValueError, match="rounds=0 must be positive"):
        timing.interleave({}, [], rounds=0)


def test_median_and_spread_of_samples():
    samples = timing.Samples(us=(10.0, 12.0, 11.0, 9.0, 100.0))
    assert samples.median == 11.0
    assert samples.spread == pytest.approx((12 - 10) / 2 / 11)
    assert timing.Samples(us=(7.0,)).spread == 0.0


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a GPU")
def test_without_cupti_it_says_so():
    compiled = timing.compile_each(lambda a, b: a @ b, [(jnp.ones((2, 2)),) * 2])
    with pytest.raises(timing.MeasuringError, match="kernels cannot be timed: CUPTI"):
        timing.cupti(compiled.run, [(jnp.ones((2, 2)),) * 2], 2)


def profile_as(monkeypatch, times):
    monkeypatch.setattr(
        timing, "_profiler", lambda: lambda f, iterations: lambda sets: (None, times)
    )


def test_times_of_the_profiler_are_milliseconds(monkeypatch):
    profile_as(monkeypatch, [0.25, 0.5])
    assert timing.cupti(None, [], 2) == [250.0, 500.0]
    profile_as(monkeypatch, 0.25)
    assert timing.cupti(None, [], 1) == [250.0]
    profile_as(monkeypatch, None)
    with pytest.raises(timing.MeasuringError, match="CUPTI saw no kernel run"):
        timing.cupti(None, [], 2)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a GPU")
def test_without_a_gpu_the_machine_says_so():
    with pytest.raises(machine.NoGpuError) as error:
        machine.find_gpu("sm_90a")
    assert str(error.value) == (
        f"nothing to measure on: jax {jax.__version__} sees no NVIDIA GPU, only cpu\n"
        "  allowed: a machine with a GPU that kgen knows: NVIDIA Hopper (sm_90a)\n"
        "  hint: `kgen doctor` tells what JAX sees; `kgen verify` proves kernels on a CPU"
    )


def test_a_machine_is_told_as_text():
    client = types.SimpleNamespace(platform_version="PJRT C API\ncuda 13010")
    device = types.SimpleNamespace(
        device_kind="NVIDIA H200", compute_capability="9.0", client=client
    )
    told = machine.describe(device)
    assert told.pop("driver")
    assert told == {
        "device": "NVIDIA H200",
        "compute_capability": "9.0",
        "cuda": "13.1",
        "jax": jax.__version__,
    }
    assert machine.describe(jax.devices("cpu")[0])["cuda"] == machine.UNKNOWN


@pytest.mark.parametrize("order", OUT_ORDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_xla_is_the_product_in_the_dtype_that_was_asked_for(layout, order):
    # XLA on a CPU cannot turn a product of bfloat16 around.
    dtype = "bfloat16" if order == "row" else "float32"
    problem = dataclasses.replace(
        PROBLEM,
        layout=layout,
        out_order=order,
        operand_dtype=dtype,
        out_dtype="float32",
    )
    sets = operands.draw(problem, l2_bytes=1)
    (product,) = peers.compile_xla(problem, sets).run(sets)
    assert product.dtype == jnp.float32
    a, b = (np.asarray(each, np.float64) for each in sets[0])
    assert product.shape == problem.out_shape
    np.testing.assert_allclose(product, exact(layout, order, a, b), atol=1e-3)


def exact(layout, order, a, b):
    """The product in numpy, as it is returned."""
    a, b = a.T if layout[0] == "t" else a, b.T if layout[1] == "t" else b
    return (a @ b).T if order == "column" else a @ b


@pytest.mark.parametrize(
    ("operand", "out", "dot"),
    [
        ("bfloat16", "bfloat16", "bfloat16"),
        ("bfloat16", "float32", "float32"),
        ("float16", "bfloat16", "float32"),
        ("float32", "bfloat16", "float32"),
    ],
)
def test_xla_rounds_within_the_product_where_it_can(operand, out, dot):
    problem = dataclasses.replace(PROBLEM, operand_dtype=operand, out_dtype=out)
    structs = [jax.ShapeDtypeStruct(s, operand) for s in problem.operand_shapes]
    traced = jax.make_jaxpr(peers.xla(problem))(*structs)
    (found,) = [e for e in traced.eqns if e.primitive.name == "dot_general"]
    assert found.outvars[0].aval.dtype == dot
    assert traced.out_avals[0].dtype == out


def test_unknown_peers_are_refused():
    assert peers.check("xla") == "xla"
    with pytest.raises(UsageError) as error:
        peers.check("cublas")
    assert str(error.value) == (
        "there is no peer 'cublas'\n  allowed: xla, jax-example, torch"
    )


def test_torch_that_is_missing_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(peers.NoPeerError, match="PyTorch cannot be imported: "):
        peers.compile_torch(PROBLEM, [])


def stand_in_torch():
    """Returns what has the few names of torch that are used, over numpy."""
    matmul = types.SimpleNamespace(allow_tf32=False)
    cuda = types.SimpleNamespace(is_available=lambda: True, synchronize=lambda: None)

    class Tensor:
        def __init__(self, values):
            self.values = values

        @property
        def mT(self):  # noqa: N802
            return Tensor(self.values.mT)

        def to(self, dtype):
            products.append((self.values, dtype))

    products = []
    return types.SimpleNamespace(
        backends=types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=matmul)),
        cuda=cuda,
        from_dlpack=lambda x: Tensor(np.asarray(x, np.float32)),
        matmul=lambda a, b: Tensor(a.values @ b.values),
        bfloat16="bfloat16",
        products=products,
    )


@pytest.mark.parametrize("order", OUT_ORDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_torch_multiplies_every_set_and_may_be_timed_by_jax(monkeypatch, layout, order):
    torch = stand_in_torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    problem = dataclasses.replace(PROBLEM, layout=layout, out_order=order)
    sets = operands.draw(problem, l2_bytes=65_536)
    compiled = peers.compile_torch(problem, sets)
    # `profiler.measure` would trace whatever is not of this kind.
    assert isinstance(compiled.run, jax.stages.Wrapped)
    compiled.run(sets)
    assert compiled.calls == len(torch.products) == len(sets) == 2
    for (product, dtype), (a, b) in zip(torch.products, sets, strict=True):
        assert dtype == "bfloat16"
        wide = (np.asarray(each, np.float32) for each in (a, b))
        np.testing.assert_allclose(product, exact(layout, order, *wide), atol=1)


def test_the_sweep_of_the_example_begins_with_its_own():
    found = example.examples(LARGE)
    own = [e for e in found if not e.cluster_dimension and e.tile_m >= 128]
    assert found[: len(own)] == own
    # Of 4 tiles, 2 ways to split them, 2 orders and 3 widths, what SMEM holds.
    assert len(own) == (2 + 1 + 2 + 0) * 2 * 3
    assert len(found) == len(set(found)) == 30 + 60 + 72


def test_the_sweep_begins_with_tiles_that_fill_the_gpu():
    small = dataclasses.replace(PROBLEM, shape=(1024, 1024, 1024))
    first, last = example.examples(small)[0], example.examples(small)[-1]
    assert (first.tile_m, first.tile_n) == (64, 64)
    assert first.ctas(small.shape) == 128
    assert last.ctas(small.shape) < 40


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"out_order": "column"}, "JAX's example returns C as [m, n] alone"),
        ({"layout": "nt"}, "JAX's example takes A as [m, k] and B as [k, n] alone"),
        (
            {"out_dtype": "float32"},
            "JAX's example takes float16 or bfloat16, and returns what it takes",
        ),
        (
            {"shape": (16, 8192, 8192)},
            "no tile of JAX's example divides m=16, n=8192, k=8192",
        ),
    ],
)
def test_what_the_example_cannot_compute_is_told(changes, reason):
    with pytest.raises(peers.NoPeerError) as error:
        example.examples(dataclasses.replace(LARGE, **changes))
    assert str(error.value) == reason
