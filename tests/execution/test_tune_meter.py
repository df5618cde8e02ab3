"""What the tuner measures with, on a CPU as far as that goes.

Candidates are rendered modules' own references: the same in plain JAX.
"""

import dataclasses
import functools
import importlib.util
import types

import jax
import jax.numpy as jnp
import pytest
from oldest import newest_only

from kgen.emit.render import render_unformatted
from kgen.measure import correct, machine, timing
from kgen.measure.peers import xla
from kgen.measure.problem import Problem
from kgen.tune import session
from kgen.tune.meter import GpuMeter, WrongResultError
from kgen.verify import repeats
from kgen.verify.explain import LevelError

pytestmark = newest_only

WS = "[schedule]\nwarp_specialized = true\n"
FLOAT8 = '[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
SCALED = f"{FLOAT8}[tile]\nm = 64\n[scales]\nblock = 128\n{WS}num_compute_wgs = 1\n"
EPILOGUE = '[[epilogue]]\nop = "residual"\n[[epilogue]]\nop = "bias"\nalong = "m"\n'
SAVED = '[[epilogue]]\nop = "save"\n[[epilogue]]\nop = "silu"\n'
SPECS = {
    "product": ("", "", "128,128,256"),
    "column": ('layout = "nt"\nout_order = "column"\n', "", "128,128,256"),
    "tt": ('layout = "tt"\n', "", "128,128,256"),
    "any": ("", '[shapes]\nedge = "any"\n', "97,40,72"),
    "8 bits": ('layout = "nt"\n', f"{FLOAT8}{WS}", "128,128,256"),
    "epilogue": ("", EPILOGUE, "128,256,256"),
    "saved": ("", SAVED, "128,128,256"),
    "scales": ('layout = "nt"\n', SCALED, "64,128,256"),
    "scales, epilogue": ('layout = "nt"\n', SCALED + EPILOGUE, "64,128,256"),
    "batch": ("", "[shapes]\nbatch = true\n", "128,128,64"),
    "batch, epilogue": ("", f"[shapes]\nbatch = true\n{EPILOGUE}", "128,128,64"),
    "autodiff": ("autodiff = true\n", EPILOGUE, "128,128,128"),
    "glu": (
        'op = "glu"\nactivation = "gelu"\n',
        f"{WS}persistent = true\n",
        "128,128,64",
    ),
}
BATCH = (2, 3)


@dataclasses.dataclass
class Tuned:
    """A meter on the CPU, and the module of a candidate."""

    meter: GpuMeter
    module: types.ModuleType

    def times(self, function):
        return self.meter.measure(self.meter.prepare(jax.jit(function)), 5)


def imported(path, text):
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tuned(tmp_path, monkeypatch, request):
    """The meter of a spec, which tells 2 us of whatever it times."""

    def find(arch):
        assert arch == "sm_90a"
        return jax.devices("cpu")[0]

    def two_us(run, sets, runs):
        run(sets)
        return [2.0 * len(sets)] * runs

    monkeypatch.setattr(machine, "find_gpu", find)
    monkeypatch.setattr(machine, "L2_BYTES", {"sm_90a": 100_000})
    monkeypatch.setattr(
        timing, "interleave", functools.partial(timing.interleave, measure=two_us)
    )
    kernel, tables, shape = SPECS[request.param]
    op = "" if "op = " in kernel else 'op = "matmul"\n'
    path = tmp_path / "gemm.toml"
    path.write_text(
        f'[kernel]\nname = "gemm"\n{op}{kernel}{tables}[tune]\npipeline.max_concurrent_steps = [2]\n'
    )
    sizes = tuple(map(int, shape.split(",")))
    batch = BATCH if "batch" in request.param else ()
    subject = session.read(path, sizes, batch)
    made = GpuMeter(subject.request)
    module = imported(tmp_path / "gemm.py", render_unformatted(subject.plan))
    before = jax.config.jax_default_device
    assert made.connect()["device"] == "cpu"
    made.setup(module.reference)
    made.compute()
    yield Tuned(made, module)
    jax.config.update("jax_default_device", before)


every = pytest.mark.parametrize("tuned", SPECS, indirect=True)


def of(*names):
    return pytest.mark.parametrize("tuned", names, indirect=True)


@every
def test_a_right_candidate_is_timed_in_turns_with_xla(tuned):
    times = tuned.times(tuned.module.reference)
    assert times.us == times.peer_us == (2.0,) * 5


@every
def test_a_module_takes_what_it_is_measured_with(tuned):
    computed = tuned.meter._computed
    function = getattr(tuned.module, computed.request.function)
    result = jax.eval_shape(function, *computed.structs())
    assert jax.tree.leaves(result)[0].shape == computed.problem.out_shape
    for operands in computed.draw(100_000):
        drawn = [(each.shape, each.dtype) for each in operands]
        assert drawn == [(each.shape, each.dtype) for each in computed.structs()]


@every
def test_a_candidate_without_its_last_row_is_not_timed(tuned):
    def cut(*operands):
        outputs = tuned.module.reference(*operands)
        return jax.tree.map(lambda out: out.at[..., -1, -1].set(jnp.nan), outputs)

    with pytest.raises(WrongResultError, match="on small integers: "):
        tuned.times(cut)


@of(*(name for name in SPECS if name not in ("column", "saved")))
def test_an_element_of_a_row_that_no_sample_has_is_not_missed(tuned):
    m, *_ = tuned.meter._computed.problem.shape
    row = min({*range(m)} - {*correct.sampled_rows(m)})

    def cut(*operands):
        return tuned.module.reference(*operands).at[..., row, 5].add(64)

    with pytest.raises(
        WrongResultError, match=r"^on small integers: [16] of [0-9]+ elements "
    ):
        tuned.times(cut)


@every
def test_what_is_wrong_for_other_values_than_integers_is_wrong(tuned):
    def off(*operands):
        b = operands[1].astype("float32")
        is_normal = jnp.any(b != jnp.round(b))
        outputs = tuned.module.reference(*operands)
        add = jnp.where(is_normal, 64, 0)
        return jax.tree.map(lambda out: out.at[..., 0, 0].add(add), outputs)

    with pytest.raises(WrongResultError, match=r"^on normal values: in 32 rows, 0 to"):
        tuned.times(off)


@of("product", "any", "batch")
def test_rounding_of_another_kind_is_wrong(tuned):
    def rounded(a, b):
        product = tuned.module.reference(a, b)
        return product.astype(jnp.float8_e5m2).astype(product.dtype)

    with pytest.raises(WrongResultError, match="on small integers: "):
        tuned.times(rounded)


@of("epilogue", "scales, epilogue", "batch, epilogue", "autodiff")
def test_an_argument_of_other_rows_is_wrong(tuned):
    def turned(*operands):
        *others, bias = operands
        return tuned.module.reference(*others, bias[..., ::-1])

    with pytest.raises(WrongResultError, match="on small integers: "):
        tuned.times(turned)


@of("batch, epilogue")
def test_an_argument_of_another_matrix_is_wrong(tuned):
    def first(a, b, residual, bias):
        return tuned.module.reference(a, b, residual[:1, :1] + 0 * residual, bias)

    with pytest.raises(WrongResultError, match="on small integers: "):
        tuned.times(first)


@of("scales", "scales, epilogue")
def test_scales_of_other_blocks_are_wrong(tuned):
    def late(a, b, a_scale, b_scale, *more):
        return tuned.module.reference(a, b, a_scale[:, ::-1], b_scale, *more)

    with pytest.raises(WrongResultError, match="on small integers: "):
        tuned.times(late)


@of("glu")
def test_swapped_weights_are_wrong(tuned):
    def swapped(x, w_gate, w_up):
        return tuned.module.reference(x, w_up, w_gate)

    with pytest.raises(WrongResultError, match="on small integers: "):
        tuned.times(swapped)


@of("saved")
def test_a_missing_output_is_wrong(tuned):
    def one(a, b):
        return tuned.module.reference(a, b)[0]

    told = r"^returns bfloat16\[128, 128\], expected bfloat16\[128, 128\], bfloat16\["
    with pytest.raises(WrongResultError, match=told):
        tuned.times(one)


@of("glu")
def test_the_fastest_of_xlas_forms_is_the_peer(tuned, monkeypatch):
    meter = tuned.meter
    forms = meter._computed.xla(meter._sets, tuned.module.reference)
    assert len(forms) == 4
    us = (4.0, 3.0, 1.0, 2.0)

    def measure(forms, sets, *, rounds):
        assert sets is meter._sets
        return {
            name: timing.Samples(us=(each,) * rounds)
            for name, each in zip(forms, us, strict=True)
        }

    monkeypatch.setattr(timing, "interleave", measure)
    assert meter._fastest(forms) is list(forms.values())[2]


@pytest.mark.parametrize(
    ("dtype", "out"),
    [("bfloat16", None), ("float16", None), ("float32", None), ("bfloat16", "float32")],
)
def test_rounding_is_no_error_and_all_else_is(dtype, out):
    asked = Problem(shape=(128, 128, 512), operand_dtype=dtype, out_dtype=out or dtype)
    check = correct.ProductCheck(asked)

    def checked(function):
        return check(repeats.Poisoned(function, correct.structs(asked)), runs=2)

    assert len(checked(xla(asked))) == 3
    with pytest.raises(LevelError, match="on small integers: "):
        checked(lambda a, b: xla(asked)(a[:, 16:], b[16:]))
    # Sums of integers, and wrong where there are others.
    is_normal = lambda a: jnp.any(a != jnp.round(a))  # noqa: E731
    with pytest.raises(LevelError, match="on normal values: in 32 rows"):
        checked(lambda a, b: xla(asked)(a, b).at[0, 9].add(is_normal(a)))
    with pytest.raises(LevelError, match=r"returns .*\[64, 128\], expected"):
        checked(lambda a, b: xla(asked)(a[:64], b))
