"""A small kernel with one fault each: the right level finds it and says what it is."""

import pytest
from verify_requests import SMALL_SMEM_BYTES, broken, request

from kgen.verify import RequestCase, cache, verify

SQUARE = ((128, 128, 128),)
AT = "at m=128, n=192, k=128"
STORE = "    plgpu.copy_smem_to_gmem("
STORE_LINE = "plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[rows, columns])"


def found(level, source, *, levels=("lower", "simulate"), **options):
    """Verifies a broken kernel and returns what `level`, which must fail, says."""
    timeout = options.pop("timeout", 120.0)
    verdict = verify(
        request(source, **options), levels=levels, timeout=timeout, cache=False
    )
    assert not verdict.passed
    failure = verdict.failure
    assert (failure.level, failure.status) == (level, "failed"), str(failure)
    after = verdict.levels[verdict.levels.index(failure) + 1 :]
    assert all(r.status == "not_run" for r in after)
    return failure.detail


def simulated(*replacements, **options):
    """Simulates a broken kernel, without lowering it, and returns what is said."""
    return found("simulate", broken(*replacements), levels=("simulate",), **options)


def lowered(*replacements, **options):
    """Lowers a broken kernel and returns what is said."""
    return found("lower", broken(*replacements), **options)


def test_the_kernel_itself_passes():
    sizes = ((64, 128, 192), (192, 64, 448), (128, 448, 64))
    verdict = verify(request(sizes=sizes), cache=False)
    assert verdict.passed, str(verdict.failure)
    assert [(r.level, r.status, r.detail) for r in verdict.levels] == [
        ("import", "passed", ""),
        ("static", "passed", ""),
        ("lower", "passed", ""),
        ("simulate", "passed", ""),
    ]
    assert verdict.jax_version == cache.installed("jax")
    assert not verdict.remembered
    assert all(r.seconds > 0 for r in verdict.levels)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_other_dtypes_pass(dtype):
    # float32 operands are K-major and half as many fit a swizzle row.
    wide = [
        ("jnp.float16", f"jnp.{dtype}"),
        ("TILE_K = 64, 64, 64", "TILE_K = 64, 32, 32"),
        ("TilingTransform((8, 64))", "TilingTransform((8, 32))"),
        ("(_, n) = a.shape, b.shape", "(n, _) = a.shape, b.shape"),
        (
            "(TILE_K, TILE_N), lambda ki: (ki, n)",
            "(TILE_N, TILE_K), lambda ki: (n, ki)",
        ),
        ("wgmma(acc, a_smem, b_smem)", "wgmma(acc, a_smem, b_smem.T)"),
    ]
    source = broken(*(wide if dtype == "float32" else wide[:1]))
    if dtype == "float32":
        source = source.replace("b_smem.T", "plgpu.transpose_ref(b_smem, (1, 0))")
    verdict = verify(
        request(
            source,
            operand_dtype=dtype,
            out_dtype=dtype,
            layout="nt" if dtype == "float32" else "nn",
        ),
        cache=False,
    )
    assert verdict.passed, str(verdict.failure)


def test_the_smem_of_the_plan_must_be_the_kernels():
    options = {"smem_bytes": SMALL_SMEM_BYTES, "levels": ("lower",)}
    assert verify(
        request(smem_bytes=SMALL_SMEM_BYTES), levels=("lower",), cache=False
    ).passed
    options["smem_bytes"] += 1024
    assert lowered(**options) == (
        f"{AT}: the lowered kernel asks for 40,976 bytes of SMEM, the plan says 42,000"
    )


def test_an_illegal_n_is_told_by_who_asserted_it():
    text = lowered(("64, 64, 64", "64, 72, 64"), sizes=((128, 144, 64),))
    assert text.startswith(
        "at m=128, n=144, k=64: AssertionError without a message, raised by"
        " transform_type (jax/_src/pallas/mosaic_gpu/core.py:"
    )
    assert text.endswith("; at small_matmul.py:24: return plgpu.kernel(")


def test_an_illegal_m_is_told_in_one_line():
    assert lowered(("64, 64, 64", "32, 64, 64")) == (
        f"{AT}: VerificationError: 'mosaic_gpu.wgmma' op The accumulator's first"
        " dimension must be a multiple of 64, but got 32.; at small_matmul.py:41:"
        " plgpu.wgmma(acc, a_smem, b_smem)"
    )


def test_too_much_smem_is_told():
    text = lowered(("STAGES = 2", "STAGES = 40"), sizes=((128, 128, 40 * 64),))
    assert text == (
        "at m=128, n=128, k=2560: ValueError: Mosaic GPU kernel exceeds available"
        " shared memory: smem_bytes=663872 > max_smem_bytes=232448"
    )


def test_x64_mode_is_tried_too():
    check = "    if jax.config.jax_enable_x64:\n        raise ValueError('x64')\n"
    assert lowered(("    (m, k), (_, n)", check + "    (m, k), (_, n)")) == (
        f"{AT}, x64 mode: ValueError: x64; at small_matmul.py:24: raise ValueError('x64')"
    )


def test_another_result_dtype_is_told():
    assert lowered(out_dtype="float32") == (
        f"{AT}: returns float16[128, 192], expected float32[128, 192]"
    )


def test_a_function_without_a_kernel_is_told():
    source = "def matmul(a, b, interpret=None):\n    return a @ b\n"
    verdict = verify(request(source), cache=False)
    _, static, lower, simulate = verdict.levels
    assert (static.status, static.detail) == (
        "not_run",
        f"not checked: no Mosaic GPU kernel is found {AT}",
    )
    assert (lower.status, lower.detail) == (
        "failed",
        f"{AT}: expected one Mosaic GPU kernel, found 0",
    )
    assert simulate.status == "not_run"


@pytest.mark.parametrize("body", ["a @ b", "jnp.full((a.shape[0], b.shape[1]), 7.0)"])
def test_nothing_is_proven_of_products_of_nothing_alone(body):
    source = f"import jax.numpy as jnp\ndef matmul(a, b):\n    return {body}\n"
    sizes = ((0, 64, 64), (64, 64, 0), (0, 0, 0))
    verdict = verify(request(source, sizes), cache=False)
    assert not verdict.passed
    assert {(r.status, r.detail) for r in verdict.levels[1:]} == {
        ("not_run", "every size is a product of nothing, of which no kernel runs")
    }


def test_a_product_of_nothing_is_not_small_enough_to_simulate():
    cases = (
        RequestCase(m=64, n=64, k=64, simulate=False),
        RequestCase(m=0, n=64, k=64),
    )
    verdict = verify(request(cases=cases), levels=("simulate",), cache=False)
    assert (verdict.failure.level, verdict.failure.detail) == (
        "simulate",
        "no size is small enough",
    )


def test_an_unknown_architecture_is_not_lowered():
    verdict = verify(request(arch="sm_70"), levels=("lower",), cache=False)
    assert (verdict.failure.status, verdict.failure.detail) == (
        "not_run",
        "not lowered: sm_70 is not one of sm_90a",
    )
    assert not verdict.passed


def test_swapped_output_indices_of_a_square_result():
    text = simulated(
        ("out_gmem.at[rows, columns]", "out_gmem.at[columns, rows]"), sizes=SQUARE
    )
    assert text.startswith("at m=128, n=128, k=128 on small integers: ")
    assert text.endswith(
        "; 2 of 4 whole blocks of 64x64 are wrong, the first [0:64, 64:128]"
    )


def test_swapped_output_indices_of_another_result():
    text = simulated(("out_gmem.at[rows, columns]", "out_gmem.at[columns, rows]"))
    assert text.endswith(
        "; 8192 are NaN, as memory that was never written: the last 64 columns"
        " (128:192) are wrong"
    )


def test_swapped_operand_indices():
    text = simulated(("lambda ki: (m, ki)", "lambda ki: (ki, m)"), sizes=SQUARE)
    assert "16247 of 16384 elements are wrong" in text
    assert text.endswith("; everything is wrong")


def test_the_last_step_of_k_dropped():
    assert simulated(("steps=k // TILE_K", "steps=k // TILE_K - 1")) == (
        f"{AT} on small integers: 24269 of 24576 elements are wrong, the first at"
        " [0, 0]: got 31, expected 69; the result is the product without the last 64"
        " of k"
    )


def test_an_output_tile_that_is_not_written():
    text = simulated(
        (STORE, f"    @pl.when(m + n > 0)\n    def _():\n    {STORE}"),
    )
    assert text == (
        f"{AT} on small integers: 4096 of 24576 elements are wrong, the first at"
        " [0, 0]: got nan, expected 69; they are NaN, as memory that was never"
        " written: the whole block [0:64, 0:64] is wrong, and only that"
    )


def test_a_last_row_of_tiles_that_is_not_written():
    text = simulated((STORE, f"    @pl.when(m == 0)\n    def _():\n    {STORE}"))
    assert text.endswith("written: the last 64 rows (64:128) are wrong")


def test_a_cast_that_comes_too_early_shows_on_normal_values():
    text = simulated(("return acc[...]", "return acc[...].astype(jnp.bfloat16)"))
    assert text.startswith(f"{AT} on ")
    assert "elements are wrong" in text
    # A narrower accumulation step shows only where integers stay exact.
    text = simulated(
        (
            "return acc[...]",
            "return (acc[...] / 3).astype(DTYPE).astype(jnp.float32) * 3",
        )
    )
    assert "elements are wrong" in text


def test_a_result_that_never_was_accumulated():
    text = simulated(("acc.astype(DTYPE)", "acc.astype(DTYPE) * 0"))
    assert text.endswith("; they are all zero: everything is wrong")


def test_a_missing_commit_is_a_race():
    text = simulated(("    plgpu.commit_smem()\n", ""))
    assert text.startswith(
        f"{AT} on small integers: data race on out_smem (float16[64, 64] in SMEM):\n"
        "  small_matmul.py:56: out_smem[...] = acc.astype(DTYPE)  <- writes it\n"
        f"  small_matmul.py:58: {STORE_LINE}  <- the store reads it\n"
    )


def test_a_deadlock_is_told_with_its_wait():
    text = simulated(
        (
            "        def step(_, a_smem, b_smem):\n",
            "        def step(_, a_smem, b_smem):\n"
            "            plgpu.barrier_wait(done_barrier)\n",
        ),
        ("        scratch_types=[\n", "        scratch_types=[plgpu.Barrier(),\n"),
        ("out_gmem, out_smem, *,", "out_gmem, done_barrier, out_smem, *,"),
    )
    assert text.startswith(
        f"{AT} on small integers: deadlock: every thread waits at a barrier for good:\n"
        "  warpgroup 0 of CTA (0, 0): small_matmul.py:41:"
        " plgpu.barrier_wait(done_barrier)  <- waits for"
    )


def test_an_error_inside_the_simulation_has_its_line():
    text = simulated(
        (
            "def step(_, a_smem, b_smem):\n            plgpu.wgmma(acc, a_smem, b_smem)",
            "def step(i, a_smem, b_smem):\n"
            "            plgpu.wgmma(acc, a_smem.at[pl.ds(64 * i[0], 64)], b_smem)",
        )
    )
    assert text.startswith(
        f"{AT} on small integers: IndexError: the wgmma reads [1, 64:128, 0:64]"
    )
    assert text.endswith(
        "; at small_matmul.py:41:"
        " plgpu.wgmma(acc, a_smem.at[pl.ds(64 * i[0], 64)], b_smem)"
    )


def test_a_function_needs_no_argument_interpret_to_be_simulated():
    edits = ((", *, interpret=None", ""), ("interpret=interpret,", ""))
    assert verify(request(broken(*edits)), cache=False).passed
    wrong = ("plgpu.wgmma(acc, a_smem, b_smem)", "plgpu.wgmma(acc, a_smem, a_smem)")
    assert "elements are wrong" in simulated(*edits, wrong)


def test_the_size_that_fails_is_told_though_others_pass():
    text = simulated(
        ("steps=k // TILE_K", "steps=min(k // TILE_K, 3)"),
        sizes=((64, 64, 64), (64, 64, 192), (64, 64, 256)),
    )
    assert text.startswith("at m=64, n=64, k=256 on small integers: ")
    assert text.endswith("; the result is the product without the last 64 of k")


def test_without_a_small_size_nothing_is_simulated():
    case = RequestCase(m=128, n=128, k=128, simulate=False)
    verdict = verify(request(cases=(case,)), cache=False)
    assert not verdict.passed
    assert str(verdict.failure) == "simulate not_run: no size is small enough"


def test_the_users_jax_settings_change_nothing(monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "bfloat16")
    monkeypatch.setenv("JAX_DISABLE_JIT", "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setenv("XLA_FLAGS", "--no_such_flag")
    verdict = verify(request(), cache=False)
    assert verdict.passed, str(verdict.failure)
