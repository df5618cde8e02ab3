"""The level `gpu`, as far as it runs without one: on a CPU, with faults on purpose."""

import ctypes
import dataclasses
import functools
import importlib.util
import itertools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu
from verify_requests import KERNELS, SMALL_MATMUL, request

from kgen.verify import gpu, repeats, verify
from kgen.verify.explain import LevelError, NotModelledError

CPU = jax.devices("cpu")[0]
WITHOUT_GPU = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="there is a GPU"
)
M, N, K = 128, 192, 128
OLD_CUSTOM_CALL = 1
C_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


def matmul(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32).astype(a.dtype)


def run(function, *, runs=5, **changes):
    """Runs the level on the CPU and returns its notes."""
    asked = dataclasses.replace(request(), **changes)
    level = gpu.Level(function, asked, KERNELS / "small_matmul.py", steps.append)
    return level.run(CPU, runs)


steps = []


@pytest.fixture(autouse=True)
def _no_steps():
    steps.clear()


@functools.cache
def writing(rows):
    """Returns what returns [128, 192] of float16 and writes ones to the first rows."""

    def write(out, _):
        ones = np.ones((rows, N), np.float16)
        ctypes.memmove(out, ones.ctypes.data, ones.nbytes)

    compiled = C_FUNCTION(write)
    kept.append(compiled)
    address = ctypes.cast(compiled, ctypes.c_void_p).value
    name = f"kgen_writes_{rows}_rows"
    ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
    ctypes.pythonapi.PyCapsule_New.argtypes = (ctypes.c_void_p,) * 3
    capsule = ctypes.pythonapi.PyCapsule_New(address, b"xla._CUSTOM_CALL_TARGET", None)
    jax.ffi.register_ffi_target(name, capsule, platform="cpu", api_version=0)
    return jax.ffi.ffi_call(
        name,
        jax.ShapeDtypeStruct((M, N), jnp.float16),
        custom_call_api_version=OLD_CUSTOM_CALL,
    )


kept = []  # C knows nothing of what Python needs no more.


def test_a_right_function_passes_and_says_what_it_tries():
    assert run(matmul) == (gpu.NO_FIGURES,)
    size = f"m={M}, n={N}, k={K}"
    assert steps == [size, f"{size} on small integers", f"{size} on normal values"]


def test_products_of_nothing_are_run_once():
    case = dataclasses.replace(request().cases[0], k=0)
    assert run(matmul, cases=(case,)) == (gpu.NO_FIGURES,)
    wrong = lambda a, b: 1 + matmul(a, b)  # noqa: E731
    with pytest.raises(LevelError, match=f"at m={M}, n={N}, k=0: "):
        run(wrong, cases=(case,))


def test_sizes_that_are_too_large_to_simulate_are_run_too():
    case = dataclasses.replace(request().cases[0], simulate=False)
    wrong = lambda a, b: 2 * matmul(a, b)  # noqa: E731
    with pytest.raises(LevelError, match="elements are wrong, the first at"):
        run(wrong, cases=(case,))


@pytest.mark.parametrize("rows", [96, 0])
def test_what_was_never_written_shows(rows):
    def leave_out_rows(a, b):
        # The product of ones would be right in the rows that are written.
        return writing(rows)(a + 0, b + 0)

    with pytest.raises(LevelError) as error:
        run(leave_out_rows)
    unwritten = (M - rows) * N
    assert f"{unwritten} are NaN" in str(error.value) or (
        f"{unwritten} of {M * N}" in str(error.value)
        and "they are NaN, as memory that was never written" in str(error.value)
    )


def test_a_result_that_changes_fails():
    count = itertools.count(1)

    def disturb(product):
        product = np.array(product)
        if next(count) == 3:
            product[1, 2] += 1
        return product

    def change(a, b):
        product = matmul(a, b)
        return jax.pure_callback(
            disturb, jax.ShapeDtypeStruct(product.shape, product.dtype), product
        )

    with pytest.raises(LevelError) as error:
        run(change)
    assert (
        f"at m={M}, n={N}, k={K} on small integers: not the same bits in every run: 1 of"
        f" 4 further runs differ from the first; run 3 in 1 of {M * N} elements, the"
        " first at [1, 2]: "
    ) in str(error.value)
    assert "memory is read before it is written" in str(error.value)


def test_zeros_of_either_sign_are_different_bits():
    runs = itertools.count()

    def zero(_):
        return np.float32(0.0 if next(runs) == 0 else -0.0)

    def change():
        return jax.pure_callback(zero, jax.ShapeDtypeStruct((), jnp.float32), 0)

    _, difference = repeats.repeat(repeats.Poisoned(change, ()), (), 3)
    assert difference.differing == 2
    assert difference.place == ()


def test_float32_may_be_cut_to_tf32():
    def cut(values):
        bits = jax.lax.bitcast_convert_type(values, jnp.uint32)
        return jax.lax.bitcast_convert_type(bits & ~jnp.uint32(0x1FFF), jnp.float32)

    def tf32(a, b):
        return jnp.dot(cut(a), cut(b), precision="highest")

    run(tf32, operand_dtype="float32", out_dtype="float32")

    def float8(a, b):
        a, b = a.astype(jnp.float8_e4m3fn), b.astype(jnp.float8_e4m3fn)
        return jnp.dot(a, b, preferred_element_type=jnp.float32)

    with pytest.raises(LevelError, match="on normal values"):
        run(float8, operand_dtype="float32", out_dtype="float32")


def test_an_exception_is_told_with_its_size():
    def refuse(a, b):
        raise ValueError("k must be at most 64")

    with pytest.raises(
        LevelError, match=rf"^at m={M}, n={N}, k={K}: ValueError: k must be at most 64"
    ):
        run(refuse)


def test_refusals_of_ptxas_are_told_instead_of_what_jax_makes_of_them(capfd):
    def refuse(a, b):
        os.write(2, b"ptxas fatal   : (C7602) Insufficient registers (128) to compile")
        raise RuntimeError("INTERNAL: Pass pipeline failed")

    with pytest.raises(LevelError) as error:
        run(refuse)
    assert str(error.value) == (
        f"at m={M}, n={N}, k={K}: ptxas: (C7602) Insufficient registers (128) to"
        " compile: take a smaller tile.m or tile.n, or fewer num_compute_wgs"
    )
    assert "ptxas fatal" in capfd.readouterr().err


def test_what_ptxas_prints_becomes_notes():
    def told(a, b):
        os.write(1, b"ptxas info    : Used 168 registers, used 1 barriers\n")
        return matmul(a, b)

    assert run(told) == ("registers 168, no spills",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", None),
        (
            "plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[rows, columns])",
            "pl.when(m > 0)(lambda: plgpu.copy_smem_to_gmem(out_smem,"
            " out_gmem.at[rows, columns]))",
            "NaN, as memory that was never written: the first 64 rows",
        ),
    ],
    ids=["right", "unwritten"],
)
def test_runs_kernels_as_the_gpu_would(old, new, message, tmp_path):
    path = tmp_path / "kernel.py"
    assert old in SMALL_MATMUL
    path.write_text(SMALL_MATMUL.replace(old, new) if old else SMALL_MATMUL)
    spec = importlib.util.spec_from_file_location("kernel_on_cpu", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    params = plgpu.InterpretGPUParams(uninitialized_memory="nan")
    kernel = functools.partial(module.matmul, interpret=params)
    if message is None:
        run(kernel, runs=2)
        return
    with pytest.raises(LevelError, match=message):
        run(kernel, runs=2)


def test_knows_whether_poison_reaches_what_is_never_written():
    operand = jnp.ones((1,))
    assert repeats.reaches_results(lambda: writing(0)(operand))
    assert not repeats.reaches_results(lambda: writing(96)(operand))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool"])
def test_poison_is_there_for_every_dtype(dtype):
    poisoned = repeats.Poisoned(lambda: jnp.ones((3,), dtype), ())
    (poison,) = poisoned.poison()
    assert poison.dtype == dtype
    if dtype != "bool":
        assert not (np.asarray(poison) == 1).any()


@WITHOUT_GPU
def test_without_a_gpu_nothing_is_proven():
    with pytest.raises(NotModelledError) as error:
        gpu.run(matmul, request(), KERNELS / "small_matmul.py", steps.append)
    assert str(error.value) == (
        f"not run on a gpu: jax {jax.__version__} sees no NVIDIA GPU, only cpu"
    )
    assert steps == []


def test_other_architectures_are_told():
    other = request(arch="sm_100a")
    with pytest.raises(NotModelledError) as error:
        gpu.run(matmul, other, KERNELS / "small_matmul.py", steps.append)
    assert str(error.value) == "not run on a gpu: sm_100a is not one of sm_90a"


@WITHOUT_GPU
def test_the_verdict_without_a_gpu_is_no_pass():
    verdict = verify(request(), levels=("gpu",), timeout=120)
    imported, result = verdict.levels
    assert imported.status == "passed"
    assert (result.level, result.status) == ("gpu", "not_run")
    assert result.detail.startswith("not run on a gpu: jax ")
    assert not verdict.passed


def test_the_worker_of_this_level_sees_the_gpus_that_the_user_chose(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp")
    names = [*gpu.ENVIRONMENT, "CUDA_VISIBLE_DEVICES", "XLA_FLAGS"]
    source = f"import os\nraise ValueError([os.environ.get(n) for n in {names}])\n"
    for levels, seen in (
        (("gpu",), [*gpu.ENVIRONMENT.values(), "3", None]),
        (("lower",), ["cpu", None, None, "1", None, None]),
    ):
        verdict = verify(request(source), levels=levels, timeout=60, cache=False)
        assert verdict.failure.detail.startswith(f"ValueError: {seen}"), verdict


def test_the_last_words_of_a_worker_are_told_though_its_output_is_collected():
    source = (
        "import os\n"
        "from kgen.verify.ptxas import Printed\n"
        "printed = Printed()\n"
        "printed.__enter__()\n"
        "os.write(2, b'F1129 Check failed')\n"
        "os.abort()\n"
    )
    verdict = verify(request(source), levels=("gpu",), timeout=60)
    assert verdict.failure.detail == (
        "the worker was ended by SIGABRT\n  F1129 Check failed"
    )
