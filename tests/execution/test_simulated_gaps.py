"""What JAX's GPU interpreter lacks: right numbers, the right race, no false alarm."""

import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest

from kgen.verify import simulate, upstream
from kgen.verify.explain import LevelError, NotModelledError
from kgen.verify.request import OperandCase, Request
from kgen.verify.simulate import wgmma
from kgen.verify.simulate.patches import PATCHES

KERNELS = Path(__file__).parent / "kernels"
sys.path.append(str(KERNELS))

import interpreter_gaps as gaps  # noqa: E402

FILE = KERNELS / "interpreter_gaps.py"
RACES = {
    "unloaded_operand": ("copy_gmem_to_smem(a_gmem", "plgpu.wgmma("),
    "overwritten_b": ("plgpu.wgmma(acc, a, b_smem)", "copy_gmem_to_smem(b_gmem"),
    "accumulator_read_early": ("plgpu.wgmma(", "wgmma_accumulator_load"),
    "accumulator_read_unsynchronised": ("plgpu.wgmma(", "wgmma_accumulator_load"),
    "one_group_not_waited_for": ("copy_smem_to_gmem(", "smem[0] ="),
    "reduction_against_a_store": ("reduction_op=op", "smem.at[2], out_gmem"),
    "multicast_into_a_slot_in_use": ("= smem[...]", "copy_gmem_to_smem("),
    "overwritten_in_the_second_cta": ("plgpu.wgmma(", "copy_gmem_to_smem(a_gmem"),
    "two_ctas_write": ("= x_gmem[0]", "= x_gmem[0] + x_gmem[1]"),
}


def run(function, *inputs, x64=False):
    """Returns what a kernel computes; raises what the level would."""
    with PATCHES.applied(*simulate.INSTALLATIONS), simulate._settings(x64=x64):
        interpreter = upstream.Interpreter(wgmma.POSITIONS)
        simulator = simulate.Simulator(function, None, FILE, interpreter, print)
        with upstream.interpreted(interpreter.params):
            kernel = jax.jit(function).lower(*inputs).compile()
        return simulator._execute(kernel, inputs)


def level(function, *operands):
    """Runs the level on a kernel whose numbers nobody compares."""
    request = Request(
        name="interpreter_gaps",
        source="",
        function="",
        op="function",
        arch="sm_90a",
        cases=(OperandCase(operands=operands),),
    )
    return simulate.run(function, request, FILE, print)


@pytest.mark.parametrize("name", gaps.RIGHT)
def test_right_numbers_and_no_false_alarm(name):
    probe = gaps.RIGHT[name]
    np.testing.assert_array_equal(run(probe.function, *probe.inputs), probe.expected)


@pytest.mark.parametrize("name", gaps.RACY)
def test_the_race_is_found_where_it_is(name):
    probe = gaps.RACY[name]
    with pytest.raises(LevelError, match=r"^data race") as error:
        run(probe.function, *probe.inputs)
    told = str(error.value)
    for line in RACES[name]:
        assert line in told or f":{_line(line)}:" in told, told


def _line(text):
    lines = FILE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_what_is_undefined_beyond_the_end_is_poison():
    probe = gaps.WRONG["undefined_beyond_the_end"]
    result = run(probe.function, *probe.inputs)
    half = gaps.SIZE // 2
    np.testing.assert_array_equal(result[:half], probe.expected[:half])
    assert np.isnan(result[half:]).all()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("broken_promise", "though it promises to stay in bounds"),
        (
            "beyond_the_only_tile",
            "begins at 64 of a dimension of 64, which is one tile",
        ),
        ("multicast_of_two_tiles", "read different parts of GMEM"),
        ("uncommitted", "are in no group when the kernel ends"),
    ],
)
def test_what_a_gpu_leaves_undefined_is_an_error(name, told):
    probe = gaps.WRONG[name]
    with pytest.raises(LevelError, match=told):
        run(probe.function, *probe.inputs)


@pytest.mark.parametrize(
    ("function", "operand", "why"),
    [
        (
            gaps.program_id,
            "float32[2,64,64]",
            "pl.program_id (use jax.lax.axis_index) is not modelled",
        ),
        (gaps.semaphores, "float32[64,64]", "semaphores are not modelled"),
        (gaps.inline, "float32[64,64]", "plgpu.inline_mgpu is not modelled"),
        (gaps.crowd, "float16[64,64]", "more than 32 warpgroups in a cluster"),
    ],
)
def test_what_is_not_modelled_is_refused(function, operand, why):
    with pytest.raises(NotModelledError) as error:
        level(function, operand)
    version = upstream.jax_version()
    assert str(error.value) == f"not simulated on jax {version}: {why}"


def test_what_jax_itself_lacks_is_no_failure_of_the_kernel():
    with pytest.raises(NotModelledError) as error:
        level(gaps.printing, "float32[64,64]")
    assert str(error.value).startswith("not simulated on jax ")
    assert "'print_layout' not found for platform cpu" in str(error.value)


def test_a_kernel_that_raises_not_implemented_itself_has_failed():
    def never(x):
        raise NotImplementedError("not for these shapes")

    with pytest.raises(LevelError, match="not for these shapes") as error:
        level(never, "float32[64,64]")
    assert not isinstance(error.value, NotModelledError)


@pytest.mark.parametrize("name", ["reduction_add", "multicast", "run_state"])
def test_x64_mode_reaches_every_thread(name):
    probe = gaps.RIGHT[name]
    result = run(probe.function, *probe.inputs, x64=True)
    np.testing.assert_array_equal(result, probe.expected)
    assert not jax.config.jax_enable_x64


def attention(q, k, v):
    """Computes softmax(q k^T) v for each batch and head, in float64."""
    q, k, v = (values.astype(np.float64) for values in (q, k, v))
    scores = np.einsum("bqhc,bkhc->bhqk", q, k)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhqk,bkhc->bqhc", weights, v)


@pytest.mark.parametrize(
    ("name", "x64"),
    [
        ("attention", False),
        ("attention", True),
        ("attention_with_pipeline_emitter", False),
    ],
)
def test_the_attention_of_jax(name, x64, monkeypatch):
    from jax.experimental.pallas.ops.gpu import attention_mgpu

    cuda = types.SimpleNamespace(cuda_runtime_get_version=lambda: 12091)
    monkeypatch.setattr(attention_mgpu, "cuda_versions", cuda)  # None without a GPU.
    config = attention_mgpu.TuningConfig(
        block_q=64, block_kv=64, max_concurrent_steps=2
    )
    rng = np.random.default_rng(0)
    lengths = (128, 192, 192)
    inputs = [
        (0.3 * rng.standard_normal((1, length, 1, 64))).astype(np.float16)
        for length in lengths
    ]

    def function(q, k, v):
        return getattr(attention_mgpu, name)(q, k, v, config)

    result = run(function, *inputs, x64=x64)
    np.testing.assert_allclose(result, attention(*inputs), atol=1e-3)
