"""The committed modules' functions are JAX functions like any other.

Everything is asked of every module; what takes seconds, of one for each way in which a
template calls its kernel.
"""

import dataclasses
import functools
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from kgen.targets import find_targets
from kgen.targets.asked import Asked
from kgen.verify import lower
from kgen.verify.request import FUNCTION, SIMULATE, OperandCase, Request
from kgen.verify.upstream import _operations

GENERATED = Path(__file__).parents[2] / "generated"
MODULES = sorted(path.stem for path in GENERATED.glob("*.py"))
FORWARD_ONLY = [name for name in MODULES if not name.endswith("_autodiff")]
# One for each way in which a template calls its kernel.
WAYS = (
    "bf16_64x64",
    "bf16_64x64_cluster",
    "bf16_64x128_small",
    "bf16_128x128_batched",
    "bf16_128x128_pallas_call",
    "bf16_128x256_any",
    "bf16_16x64_swapped",
    "bf16_residual",
    "bf16_save_silu",
    "bf16_split_k_relu",
    "e4m3_128x128_block_scaled",
    "fp16_glu_gelu",
    "matmul_h200",
)
TWO = AbstractMesh((2,), ("x",), axis_types=(AxisType.Auto,))
# Counts the kernels of a process that have no name.
COUNTER = re.compile(r"anonymous_\d+")


@dataclasses.dataclass(frozen=True)
class Citizen:
    """A module's function and small operands for it."""

    name: str
    function: Callable[..., object]
    reference: Callable[..., object]
    names: list[str]
    operands: list[jax.ShapeDtypeStruct]

    @property
    def pairs(self):
        """Two of every operand, along a new first dimension."""
        return [struct((2, *each.shape), each.dtype) for each in self.operands]


def struct(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


@functools.cache
def citizen(name):
    sys.path[:] = dict.fromkeys((str(GENERATED), *sys.path))
    path = GENERATED / f"{name}.py"
    (target,) = find_targets([str(path)], Asked(), lambda *_: None)
    module = importlib.import_module(name)
    public = getattr(module, target.request.function)
    case = target.request.cases[0]
    names = [
        parameter.name
        for parameter in inspect.signature(public).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    # The dispatcher has no reference of its own: it computes what its kernels do.
    stated = getattr(module, "reference", None) or module.bf16_64x64_cluster.reference
    called = lower.called(public, case)
    return Citizen(name, called, stated, names, lower.operands(target.request, case))


@pytest.fixture(params=MODULES)
def each(request):
    return citizen(request.param)


@pytest.fixture(params=WAYS)
def way(request):
    return citizen(request.param)


def avals(function, *operands):
    """Returns shapes, dtypes and weakness of what a function returns."""
    leaves = jax.tree.leaves(jax.eval_shape(function, *operands))
    return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves]


def for_cuda(function, *operands, **options):
    """Returns a function lowered for CUDA, which needs no GPU."""
    traced = jax.jit(function, **options).trace(*operands)
    return traced.lower(lowering_platforms=("cuda",))


def kernels(lowered):
    """Returns the Mosaic GPU kernels of a lowered function, as text.

    As JAX serialised them the counter's number of digits would still show.
    """
    module = lowered.compiler_ir("stablehlo")
    found = _operations(module, "stablehlo.custom_call")
    module.context.allow_unregistered_dialects = True
    return [
        COUNTER.sub("", str(type(module).parse(serialised, module.context)))
        for op in found
        if op.attributes["call_target_name"].value == "mosaic_gpu_v2"
        for serialised in [op.attributes["mhlo.backend_config"]["module"].value_bytes]
    ]


@functools.cache
def alone(name):
    """Returns the kernels of a module's function, called by itself."""
    known = citizen(name)
    return kernels(for_cuda(known.function, *known.operands))


def sharded(function, count, *, check_vma):
    """Returns a function of which every device has half of the first operand's rows."""
    specs = (P("x"), *[P()] * (count - 1))
    return jax.shard_map(
        function, mesh=TWO, in_specs=specs, out_specs=P("x"), check_vma=check_vma
    )


def doubled(operands):
    """Returns operands of which the first has twice the rows."""
    (rows, *others), dtype = operands[0].shape, operands[0].dtype
    return [struct((2 * rows, *others), dtype), *operands[1:]]


def test_there_is_a_way_to_call_every_template():
    assert set(WAYS) <= set(MODULES)


@pytest.mark.parametrize("x64", [False, True])
def test_shapes_and_dtypes_are_those_of_the_reference(each, x64):
    with jax.enable_x64(x64):
        # A reference takes scalars as they come; weak types are not the kernel's.
        stated = [
            (*known, False) for *known, _ in avals(each.reference, *each.operands)
        ]
        assert avals(each.function, *each.operands) == stated
        assert avals(jax.jit(each.function), *each.operands) == stated


def test_numpy_arrays_are_operands_too(each):
    arrays = [np.zeros(each.shape, each.dtype) for each in each.operands]
    assert avals(each.function, *arrays) == avals(each.function, *each.operands)


def test_another_dtype_is_refused_by_name(each):
    for index, (name, right) in enumerate(zip(each.names, each.operands, strict=True)):
        if right.shape == ():
            continue  # A scalar is cast: Python's have no dtype.
        operands = list(each.operands)
        operands[index] = struct(right.shape, jnp.int8)
        with pytest.raises(
            ValueError, match=rf"\b{name} must be {right.dtype}, got int8"
        ):
            jax.eval_shape(each.function, *operands)


def test_another_rank_is_refused_by_name(each):
    for index, (name, right) in enumerate(zip(each.names, each.operands, strict=True)):
        operands = list(each.operands)
        other = {0: (2,), 1: ()}.get(len(right.shape), right.shape[-1:])
        operands[index] = struct(other, right.dtype)
        with pytest.raises(
            ValueError, match=rf"\b{name} must have .*, got (shape )?\("
        ):
            jax.eval_shape(each.function, *operands)


def test_what_is_no_array_is_refused(each):
    for index, right in enumerate(each.operands):
        if right.shape == ():
            continue  # A scalar is converted, be it a list.
        for other in (None, [[1.0]], {"a": 1.0}):
            operands = list(each.operands)
            operands[index] = other
            with pytest.raises(TypeError, match="is not a valid JAX type"):
                each.function(*operands)


def differentiated(function, operands):
    """Differentiates a function at operands, of which only shapes are known."""

    def pulled_back(*operands):
        out, pull_back = jax.vjp(function, *operands)
        return pull_back(out)

    return jax.eval_shape(pulled_back, *operands)


@pytest.mark.parametrize("each", FORWARD_ONLY, indirect=True)
def test_it_says_that_it_has_no_gradient_rule(each):
    message = (
        "^(matmul|glu) has no gradient rule: (render its spec with auto|define one)"
    )
    with pytest.raises(TypeError, match=message):
        differentiated(each.function, each.operands)


@pytest.mark.parametrize(
    "name", ["bf16_64x64", "bf16_128x128_batched", "fp16_glu_gelu"]
)
def test_every_way_to_differentiate_is_refused(name):
    known = citizen(name)
    first, *others = (jnp.zeros(each.shape, each.dtype) for each in known.operands)

    def of_first(first):
        return known.function(first, *others)

    mapped = jax.vmap(known.function, in_axes=(0, *[None] * len(others)))
    for refused in (
        lambda: jax.jvp(of_first, (first,), (first,)),
        lambda: jax.linearize(of_first, first),
        lambda: jax.vjp(of_first, first),
        lambda: jax.grad(lambda first: of_first(first).astype("float32").sum())(first),
        lambda: jax.vjp(jax.jit(of_first), first),
        lambda: jax.vjp(jax.checkpoint(of_first), first),
        lambda: jax.vjp(mapped, first[None], *others),
        lambda: jax.vmap(lambda first: jax.vjp(of_first, first)[0])(first[None]),
    ):
        with pytest.raises(TypeError, match="has no gradient rule"):
            refused()


def test_a_constant_of_what_is_differentiated_is_none_of_it(way):
    def weighted(weight, *operands):
        kept = map(lax.stop_gradient, operands)
        return weight * jnp.sum(
            jax.tree.leaves(way.function(*kept))[0], dtype="float32"
        )

    def gradient(weight, *operands):
        return jax.grad(weighted)(weight, *operands)

    assert avals(gradient, struct((), "float32"), *way.operands)


def test_its_user_may_define_the_rule(way):
    @jax.custom_vjp
    def function(*operands):
        return way.function(*operands)

    def forward(*operands):
        return function(*operands), operands

    function.defvjp(forward, lambda operands, _: operands)
    gradients = differentiated(function, way.operands)
    assert [(each.shape, each.dtype) for each in gradients] == [
        (each.shape, each.dtype) for each in way.operands
    ]


def test_it_can_be_mapped_over_all_operands_or_one(each):
    one = [
        ((2, *shape), *rest) for shape, *rest in avals(each.function, *each.operands)
    ]
    assert avals(jax.vmap(each.function), *each.pairs) == one
    axes = (0, *[None] * (len(each.operands) - 1))
    mapped = jax.vmap(each.function, in_axes=axes)
    assert avals(mapped, each.pairs[0], *each.operands[1:]) == one


@pytest.mark.parametrize("check_vma", [False, True])
def test_it_can_be_sharded_over_an_axis_of_a_mesh(each, check_vma):
    function = sharded(each.function, len(each.operands), check_vma=check_vma)
    assert avals(function, *doubled(each.operands)) == [
        ((2 * rows, *others), *rest)
        for (rows, *others), *rest in avals(each.function, *each.operands)
    ]


def test_it_survives_being_exported(way):
    pytest.importorskip("flatbuffers", reason="jax.export writes with flatbuffers")
    exporting = jax.export.export(jax.jit(way.function), platforms=["cuda"])
    exported = exporting(*way.operands)
    read = jax.export.deserialize(exported.serialize())
    assert read.mlir_module() == exported.mlir_module()
    assert (read.in_avals, read.out_avals) == (exported.in_avals, exported.out_avals)
    returned = [(aval.shape, aval.dtype, aval.weak_type) for aval in read.out_avals]
    assert returned == avals(way.function, *way.operands)


def test_a_device_of_a_mesh_runs_the_very_kernel(way):
    assert len(alone(way.name)) == 1
    function = sharded(way.function, len(way.operands), check_vma=True)
    assert kernels(for_cuda(function, *doubled(way.operands))) == alone(way.name)


def test_parts_of_k_on_several_devices_are_summed_up():
    matmul = citizen("bf16_64x64").function

    def summed(a, b):
        return lax.psum(matmul(a, b), "x")

    operands = struct((64, 256), "bfloat16"), struct((256, 64), "bfloat16")
    for check_vma in (False, True):
        function = jax.shard_map(
            summed,
            mesh=TWO,
            in_specs=(P(None, "x"), P("x")),
            out_specs=P(),
            check_vma=check_vma,
        )
        lowered = for_cuda(function, *operands)
        assert len(kernels(lowered)) == 1
        assert lowered.as_text().count("stablehlo.all_reduce") == 1


def test_gradients_of_what_devices_share_are_summed_up_or_refused():
    matmul = citizen("bf16_128x256_autodiff").function
    operands = struct((1024, 512), "bfloat16"), struct((512, 512), "bfloat16")

    def gradients(check_vma):
        function = sharded(matmul, 2, check_vma=check_vma)
        return jax.grad(
            lambda a, b: function(a, b).sum(dtype="float32"), argnums=(0, 1)
        )

    lowered = for_cuda(gradients(False), *operands)
    assert len(kernels(lowered)) == 2  # The product itself is not needed.
    assert lowered.as_text().count("stablehlo.all_reduce") == 1
    with pytest.raises(ValueError, match="the manual axis types do not match"):
        for_cuda(gradients(True), *operands)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_operands_may_be_donated(way):
    everything = tuple(range(len(way.operands)))
    lowered = for_cuda(way.function, *way.operands, donate_argnums=everything)
    donated = [each.donated for each in jax.tree.leaves(lowered.args_info)]
    assert donated == [True] * len(everything)
    assert kernels(lowered) == alone(way.name)


@pytest.mark.parametrize("alpha", [2, 2.0, np.float64(2), np.float16(2)])
@pytest.mark.parametrize("x64", [False, True])
def test_a_scalar_argument_may_be_any_number(alpha, x64):
    residual = citizen("bf16_residual")
    a, b, _, rest = residual.operands
    with jax.enable_x64(x64):
        passed = avals(residual.function, a, b, alpha, rest)
        closed = jax.jit(lambda a, b, rest: residual.function(a, b, alpha, rest))
        assert avals(closed, a, b, rest) == passed
    assert passed == [((a.shape[0], b.shape[1]), jnp.bfloat16, False)]


MAPPED = """
import functools

import jax
import numpy as np
import {kernel} as kernel


@jax.jit
def mapped(*operands):
    one = functools.partial(kernel.{function})
    return jax.vmap(one, in_axes={axes})(*operands)


def reference(a, b, *others):
    product = np.moveaxis(a, {axes}[0], 0) @ b
    return {result}
"""
# Kernel, what is called of it, axes that are mapped, operands and what is right.
SIMULATED = {
    "both operands": (
        "bf16_64x64",
        "matmul",
        (0, 0),
        ("bfloat16[2,64,128]", "bfloat16[2,128,64]"),
        "product",
    ),
    "one operand, cluster": (
        "bf16_64x64_cluster",
        "matmul",
        (0, None),
        ("bfloat16[2,64,128]", "bfloat16[128,128]"),
        "product",
    ),
    "two tiles for a CTA": (
        "bf16_128x256_persistent",
        "matmul, num_sms=1",
        (0, 0),
        ("bfloat16[2,256,64]", "bfloat16[2,64,256]"),
        "product",
    ),
    "split K, bias of one": (
        "bf16_split_k_relu",
        "matmul",
        (0, None, None),
        ("bfloat16[2,64,128]", "bfloat16[128,64]", "float32[64]"),
        "np.maximum(product + others[0], 0)",
    ),
    "another axis": (
        "bf16_16x64_swapped",
        "matmul",
        (1, None),
        ("bfloat16[16,2,256]", "bfloat16[256,64]"),
        "product",
    ),
    "pallas_call": (
        "bf16_128x128_pallas_call",
        "matmul",
        (0, None),
        ("bfloat16[2,128,64]", "bfloat16[64,128]"),
        "product",
    ),
    "padded": (
        "bf16_128x256_any",
        "matmul",
        (0, 0),
        ("bfloat16[2,3,9]", "bfloat16[2,9,5]"),
        "product",
    ),
    "gated": (
        "bf16_glu_silu",
        "glu",
        (0, None, None),
        ("bfloat16[2,128,64]", "bfloat16[64,128]", "bfloat16[64,128]"),
        "product / (1 + np.exp(-product)) * (a @ others[0])",
    ),
}


@pytest.mark.parametrize("case", SIMULATED)
def test_what_is_mapped_is_right(prover, case):
    kernel, function, axes, operands, result = SIMULATED[case]
    request = Request(
        name=f"mapped_{kernel}",
        source=MAPPED.format(
            kernel=kernel, function=function, axes=axes, result=result
        ),
        function="mapped",
        op=FUNCTION,
        arch="sm_90a",
        cases=(OperandCase(operands=operands),),
        reference="reference",
        beside=json.dumps({kernel: (GENERATED / f"{kernel}.py").read_text("utf-8")}),
    )
    verdict = prover.verify(request, levels=(SIMULATE,))
    assert verdict.passed, verdict.failure


def test_a_donated_operand_is_not_needed_any_more():
    module = importlib.import_module("bf16_64x64")
    rng = np.random.default_rng(0)
    drawn = [rng.integers(-3, 4, shape) for shape in ((64, 64), (64, 64))]
    a, b = (jnp.asarray(each, jnp.bfloat16) for each in drawn)
    interpret = plgpu.InterpretGPUParams()
    matmul = jax.jit(
        functools.partial(module.matmul, interpret=interpret), donate_argnums=0
    )
    out = np.asarray(matmul(a, b), np.float32)
    right = np.asarray(jnp.asarray(drawn[0] @ drawn[1], jnp.bfloat16), np.float32)
    np.testing.assert_array_equal(out, right)
    assert a.is_deleted()
