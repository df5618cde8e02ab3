"""The level `gpu` on a Hopper GPU: it passes what is right and sees what is not.

    python -m pytest tests/execution/test_on_gpu.py

needs jax, numpy and pytest. Elsewhere these tests are skipped.
"""

import importlib.util
import re
from pathlib import Path

import pytest
from verify_requests import SMALL_SMEM_BYTES, broken, request

from kgen.verify import gpu, upstream
from kgen.verify.explain import LevelError
from kgen.verify.request import Request, RequestCase

GENERATED = Path(__file__).parents[2] / "generated"
HANGING = """
import jax
from jax.experimental.pallas import mosaic_gpu as plgpu

def matmul(a, b, *, interpret=None):
    def wait(a_gmem, b_gmem, out_gmem, barrier):
        plgpu.barrier_wait(barrier)  # Where nobody arrives.

    return plgpu.kernel(
        wait,
        out_type=jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype),
        scratch_types=[plgpu.Barrier()],
        grid=(1,),
        grid_names=("x",),
        interpret=interpret,
    )(a, b)
"""
LARGE = RequestCase(m=4096, n=4096, k=4096, simulate=False)


@pytest.fixture(autouse=True, scope="module")
def _hopper():
    try:
        gpu.find_device("sm_90a")
    except upstream.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _ptxas(monkeypatch):
    monkeypatch.setenv("MOSAIC_GPU_DUMP_PTXAS", "1")


def run(asked, directory):
    """Imports a request's module and runs the level on it, in this process."""
    path = directory / f"{asked.name}.py"
    path.write_text(asked.source, "utf-8")
    spec = importlib.util.spec_from_file_location(asked.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return gpu.run(module.matmul, asked, path, print)


def committed(name, dtype, layout="nn", **changes):
    """Returns a request for a committed module, with constants changed."""
    source = (GENERATED / f"{name}.py").read_text("utf-8")
    for old, new in changes.items():
        source, count = re.subn(rf"^{old} = .*$", f"{old} = {new}", source, flags=re.M)
        assert count == 1, old
    return Request(
        name=name,
        source=source,
        function="matmul",
        op="matmul",
        arch="sm_90a",
        operand_dtype=dtype,
        out_dtype=dtype,
        layout=layout,
        cases=(LARGE,),
    )


def test_a_right_kernel_passes_with_its_registers(tmp_path):
    figures, *others = run(request(), tmp_path)
    told = re.fullmatch(r"registers (\d+), no spills, SMEM ([\d,]+) bytes", figures)
    assert told, figures
    assert 32 <= int(told[1]) <= 255
    assert int(told[2].replace(",", "")) >= SMALL_SMEM_BYTES
    # A kernel without a body has shown that unwritten memory would be seen.
    assert not [note for note in others if note.startswith("unwritten memory")]


@pytest.mark.parametrize(
    ("name", "dtype", "layout"),
    [
        ("fp16_128x128", "float16", "nn"),
        ("bf16_128x256_ws", "bfloat16", "nn"),
        ("bf16_128x128_pallas_call", "bfloat16", "nn"),
        ("tf32_128x128", "float32", "nt"),
    ],
)
def test_committed_kernels_pass_at_a_size_that_fills_the_card(
    name, dtype, layout, tmp_path
):
    notes = run(committed(name, dtype, layout), tmp_path)
    assert ", no spills, " in notes[0]


def test_memory_that_is_never_written_shows(tmp_path):
    copy = "plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[rows, columns])"
    source = broken((copy, f"pl.when(m > 0)(lambda: {copy})"))
    with pytest.raises(LevelError, match="NaN, as memory that was never written"):
        run(request(source), tmp_path)


def test_a_race_shows(tmp_path):
    # Half of the elements were wrong when it was measured on one H200.
    racing = committed(
        "bf16_128x128", "bfloat16", DELAY_RELEASE=0, MAX_CONCURRENT_STEPS=2
    )
    with pytest.raises(LevelError, match=r"elements are wrong|not the same bits"):
        run(racing, tmp_path)


def test_a_kernel_that_hangs_is_killed_and_the_gpu_works_on():
    pytest.importorskip("platformdirs")  # The cache of verdicts needs it.
    from kgen.verify import verify

    verdict = verify(request(HANGING), levels=("gpu",), timeout=30)
    assert verdict.failure.detail.startswith("no result within 30 s at m=128, n=192")
    verdict = verify(request(), levels=("gpu",), timeout=120)
    assert verdict.passed, verdict
