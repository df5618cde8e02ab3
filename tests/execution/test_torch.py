"""Functions for PyTorch: what JAX hands over is one kernel, and bad tensors are refused.

There is no PyTorch here: what stands in for it has the few names that are looked up.
"""

import importlib
import importlib.util
import sys
import types

import jax
import jax.experimental.mosaic.gpu as mgpu
import pytest
from jax.extend.mlir import passmanager
from made import plan

from kgen.emit.render import render
from kgen.errors import SpecError
from kgen.pipeline import request_of
from kgen.verify.lower import operands

TORCH = "[module]\ntorch = true\n"
TILE = "[tile]\nm = 64\nn = 64\n"
WS = "[schedule]\nwarp_specialized = true\nnum_compute_wgs = 1\n"
PLANS = {
    "pipelined": TILE,
    "pallas_call": TILE + '[kernel]\nentry_point = "pallas_call"\n',
    "warp-specialised": TILE + WS,
    "persistent": TILE + WS + "persistent = true\n",
    "ping-pong": TILE
    + "[schedule]\nwarp_specialized = true\npersistent = true\nping_pong = true\n",
    "cluster": TILE + WS + "[cluster]\nm = 2\n",
    "swapped": "[tile]\nm = 16\nn = 64\n" + WS + "swap_operands = true\n",
    "vectors": TILE
    + '[[epilogue]]\nop = "bias"\n[[epilogue]]\nop = "scale_rows"\nargument = "s"\n',
    "two outputs": TILE + '[[epilogue]]\nop = "save"\n[[epilogue]]\nop = "relu"\n',
}
AROUND = {
    "shapes.edge": '[shapes]\nedge = "any"\n' + TILE,
    "split_k = 2": TILE + WS + "split_k = 2\n",
    "shapes.batch": "[shapes]\nbatch = true\n" + TILE,
    "scalar argument alpha": TILE + '[[epilogue]]\nop = "scale"\nargument = "alpha"\n',
}


class Tensor:
    """Looks like a tensor, and is right but for what is told."""

    is_cuda, device, address, contiguous = True, "cuda:0", 4096, True

    def __init__(self, **changes):
        vars(self).update(changes)

    def get_device(self):
        return int(self.device.partition(":")[2])

    def is_contiguous(self):
        return self.contiguous

    def stride(self):
        return (1, 64)

    def data_ptr(self):
        return self.address


@pytest.fixture
def torch(monkeypatch):
    """Stands in for PyTorch."""
    stand_in = types.ModuleType("torch")
    for dtype in ("float16", "bfloat16", "float32"):
        setattr(stand_in, dtype, dtype)
    stand_in.cuda = types.SimpleNamespace(
        current_device=lambda: 0,
        current_stream=lambda: "default",
        default_stream=lambda: "default",
    )
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    return stand_in


def imported(directory, made):
    rendered = render(made, verified=False)
    path = directory / f"{made.name}.py"
    path.write_text(rendered.source, "utf-8")
    spec = importlib.util.spec_from_file_location(made.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, request_of(made, rendered)


def read_by_jax(module, request):
    """Lowers a function as `as_torch_kernel` does, and has JAX read what came of it.

    Raises:
      ValueError: JAX finds more or less than one kernel.
    """
    # Of the package's names, `torch` is the file; nothing public reads a module alone.
    reader = importlib.import_module("jax._src.pallas.mosaic_gpu.torch")
    traced = jax.jit(module.matmul).trace(*operands(request, request.cases[0]))
    lowered = traced.lower(lowering_platforms=("cuda",)).compiler_ir()
    with lowered.context:
        mgpu.dialect.register_inliner_extensions(lowered.context)
        inline = "builtin.module(inline{default-pipeline=})"
        passmanager.PassManager.parse(inline).run(lowered.operation)
        return reader._find_mgpu_call_in_module(lowered)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", PLANS)
def test_jax_finds_one_kernel_and_nothing_else(tmp_path, name):
    module, request = imported(tmp_path, plan(tmp_path, PLANS[name] + TORCH))
    call, *_, get_outputs = read_by_jax(module, request)
    assert len(get_outputs(*"ab"[: len(call.results)])) == len(call.results)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", AROUND)
def test_what_jax_would_not_take_is_refused(tmp_path, name):
    module, request = imported(tmp_path, plan(tmp_path, AROUND[name]))
    with pytest.raises(
        (ValueError, NotImplementedError), match=r"Unsupported|Only i32"
    ):
        read_by_jax(module, request)
    with pytest.raises(SpecError) as error:
        plan(tmp_path, AROUND[name] + TORCH)
    (problem,) = error.value.problems
    assert (problem.code, name in problem.message) == ("KG690", True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"is_cuda": False, "device": "cpu"}, "must be on the current .*, is on cpu"),
        ({"device": "cuda:1"}, "must be on the current CUDA device, is on cuda:1"),
        ({"contiguous": False}, r"must be contiguous, has strides \(1, 64\)"),
        ({"address": 4104}, "must be a multiple of 16"),
    ],
)
@pytest.mark.usefixtures("torch")
def test_a_tensor_that_no_kernel_may_read_is_refused(tmp_path, changes, message):
    module, _ = imported(tmp_path, plan(tmp_path, PLANS["pipelined"] + TORCH))
    for name, wrong in (("a", (0,)), ("b", (1,))):
        tensors = [Tensor(**(changes if index in wrong else {})) for index in (0, 1)]
        with pytest.raises(ValueError, match=message) as error:
            module.matmul_torch(*tensors)
        assert f"{name} " in str(error.value)


def test_another_stream_is_refused(tmp_path, torch, monkeypatch):
    module, _ = imported(tmp_path, plan(tmp_path, PLANS["pipelined"] + TORCH))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "another")
    with pytest.raises(ValueError, match="default stream must be current"):
        module.matmul_torch(Tensor(), Tensor())


def test_good_tensors_are_handed_over(tmp_path, torch, monkeypatch):
    made = plan(tmp_path, PLANS["vectors"] + TORCH)
    module, _ = imported(tmp_path, made)
    handed = []
    monkeypatch.setattr(
        module.plgpu, "as_torch_kernel", lambda f: lambda *of: handed.append((f, of))
    )
    tensors = [Tensor() for _ in range(4)]
    module.matmul_torch(*tensors)
    assert handed == [(module.matmul, tuple(tensors))]


def test_a_module_that_is_not_asked_knows_nothing_of_it(tmp_path):
    rendered = render(plan(tmp_path, PLANS["pipelined"]), verified=False)
    assert "torch" not in rendered.source
