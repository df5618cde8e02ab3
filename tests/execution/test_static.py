"""Level `static`: legality rules on traced kernels.

Every rule is broken by a small kernel of its own, beside what JAX itself says of it; and
no rule finds fault with kernels that are right.
"""

import dataclasses
import functools
import importlib
import math
import types
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from broken_kernels import ALL, BARE, BROKEN, LEGAL, MODULE, NOTHING, TILED, imported, t
from jax import ShapeDtypeStruct as Struct
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from verify_requests import broken, request

from kgen.arch import SM_90A
from kgen.emit.render import render
from kgen.pipeline import plan_all, request_of
from kgen.rules import SIMULATE, SPEC, TRACE, all_rules
from kgen.verify import static, upstream, verify
from kgen.verify.explain import LevelError, NotModelledError
from kgen.verify.request import OperandCase, Request
from kgen.verify.static import errors, pieces
from kgen.verify.static.rules import TRACED

ROOT = Path(__file__).parents[2]
F16, F32, BF16 = jnp.float16, jnp.float32, jnp.bfloat16


def ignore(_):
    """Takes what a level says about its progress."""


def asked(shape, **options) -> Request:
    operands = (f"float16[{','.join(map(str, shape))}]",) if shape else ()
    fields = {"name": "traced", "source": "", "function": "f", "op": "function"}
    cases = (OperandCase(operands=operands),)
    return Request(**fields, arch="sm_90a", cases=cases, **options)


def checked(function, shape=(), **options):
    """Runs the level on a function of one array, or of none."""
    asks = asked(shape, **options)
    return static.run(function, asks, MODULE, ignore)


def codes(text):
    return [line[:5] for line in text.splitlines() if line.startswith("KG")]


def names(case):
    return case if isinstance(case, str) and case.startswith("KG") else ""


@pytest.mark.parametrize(("code", "function", "shape", "_"), BROKEN, ids=names)
def test_rule(code, function, shape, _):
    with pytest.raises(LevelError) as caught:
        checked(function, shape)
    assert code in codes(str(caught.value))
    # With one wgmma too large for its registers, so is the accumulator.
    others = {"KG402"} if code == "KG405" else set()
    assert {*codes(str(caught.value))} <= {code, *others}
    if code != "KG205":
        assert "  traced.py:" in str(caught.value)


@pytest.mark.parametrize(("_", "function", "shape", "said"), BROKEN, ids=names)
def test_what_jax_says_of_it(_, function, shape, said):
    """Shows that the rule is needed, and that JAX still refuses what it forbids."""
    operands = [Struct(shape, F16)] if shape else []

    def lower():
        traced = jax.jit(function).trace(*operands)
        traced.lower(lowering_platforms=("cuda",))

    if said is NOTHING:
        lower()
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011
        lower()
    if said == BARE:
        assert isinstance(caught.value, AssertionError | NotImplementedError)
        assert not str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(("function", "shape"), LEGAL)
def test_what_is_legal_passes(function, shape):
    assert checked(function, shape) == []
    operands = [Struct(shape, F16)] if shape else []
    traced = jax.jit(function).trace(*operands)
    traced.lower(lowering_platforms=("cuda",))


def test_every_rule_of_the_trace_is_broken_by_a_kernel():
    on_trace = {code for code, rule in all_rules().items() if TRACE in rule.checked_on}
    assert {code for code, *_ in BROKEN} == on_trace
    assert {*TRACED, *(code for _, code in errors.MEANINGS)} == on_trace


def test_every_rule_has_a_check():
    # Found in a simulation: see test_a_store_that_is_not_committed below, and the
    # tests of races and deadlocks.
    simulated = {c for c, r in all_rules().items() if SIMULATE in r.checked_on}
    assert simulated == {"KG501", "KG502", "KG503", "KG510"}
    assert all({*r.checked_on} <= {SPEC, TRACE, SIMULATE} for r in all_rules().values())
    assert all(rule.checked_on for rule in all_rules().values())


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (("    plgpu.commit_smem()\n", ""), "data race"),  # KG503
        (("plgpu.wgmma_wait(0)", "plgpu.wgmma_wait(1)"), "data race"),  # KG502
        # KG501: upstream compares with the smaller delay.
        (
            (
                "_block((TILE_K, TILE_N), lambda ki: (ki, n)),",
                "plgpu.BlockSpec((TILE_K, TILE_N), lambda ki: (ki, n),"
                " transforms=TRANSFORMS, delay_release=2),",
            ),
            "deadlock",
        ),
    ],
    ids=["KG503", "KG502", "KG501"],
)
def test_what_only_a_simulation_finds(fault, said):
    asks = request(broken(fault), sizes=((64, 64, 448),))
    assert verify(asks, levels=("static",), cache=False).passed
    failure = verify(asks, levels=("simulate",), cache=False).failure
    assert failure is not None
    assert failure.level == "simulate"
    assert said in failure.detail


def test_what_only_a_simulation_finds_of_pipelines():
    """KG510: nothing says of a traced pipeline which one came before it."""
    asks = dataclasses.replace(
        asked(()), source=MODULE.read_text("utf-8"), function="stop_alone"
    )
    assert verify(asks, levels=("static", "lower"), cache=False).passed
    failure = verify(asks, levels=("simulate",), cache=False).failure
    assert failure is not None
    assert "deadlock" in failure.detail


def test_a_finding_whole():
    with pytest.raises(LevelError) as caught:
        checked(partial(t.product, n=24))
    line = next(
        number
        for number, text in enumerate(MODULE.read_text().splitlines(), 1)
        if "plgpu.wgmma(" in text
    )
    assert str(caught.value) == (
        "KG103 n = 24 of the wgmma is not a multiple of 64 (B is N-major, swizzle 128)\n"
        f"  traced.py:{line}: plgpu.wgmma(acc, a, b_smem.T if k_major else b_smem)\n"
        "  allowed: 64, 128, 192, 256\n"
        "  hint: a narrower swizzle allows more sizes, a K-major B ([n, k], transposed)"
        " multiples of 8; see `kgen rule KG103`"
    )


def test_accumulators_that_are_live_at_once_count_together():
    def body(out_gmem):
        def outer(_):
            pl.run_scoped(t.nothing, plgpu.ACC((128, 128), F32))

        pl.run_scoped(outer, plgpu.ACC((128, 128), F32))

    with pytest.raises(LevelError) as caught:
        checked(partial(t.launch, body))
    assert str(caught.value).startswith(
        "KG402 this accumulator of 128 x 128 and those around it take 256 registers per"
        " thread, about 284 with all else\n"
    )
    with pytest.raises(LevelError) as caught:
        checked(partial(t.product, m=256, n=128))
    assert str(caught.value).startswith(
        "KG402 the accumulator of 256 x 128 takes 256 registers per thread, about 284"
        " with all else\n"
    )


def test_a_rule_that_jax_tells_whole():
    with pytest.raises(LevelError) as caught:
        checked(partial(t.registers, 42))
    text = str(caught.value)
    assert text.startswith(
        "KG403 memory_registers is a multiple of 8 from 24 to 256: ValueError: n must be"
        " a positive multiple of 8, got 42\n  traced.py:"
    )
    assert text.endswith(
        'plgpu.set_max_registers(count, action="decrease")\n'
        "  hint: see `kgen rule KG403`"
    )


def test_all_findings_are_told_each_once():
    with pytest.raises(LevelError) as caught:
        checked(partial(t.product, m=96, n=24, k=96))
    assert codes(str(caught.value)) == ["KG101", "KG103", "KG104"]


def test_a_finding_that_not_every_case_has_says_where():
    asks = dataclasses.replace(
        asked(()),
        cases=tuple(
            OperandCase(operands=(f"float16[256,{n}]",)) for n in (64, 200, 136)
        ),
    )
    load = partial(t.load, index=lambda: ALL, shape=(64, 64), **TILED)
    with pytest.raises(LevelError) as caught:
        static.run(load, asks, MODULE, ignore)
    assert codes(str(caught.value)) == ["KG307", "KG307"]
    assert "\n  at: float16[256,200]\n" in str(caught.value)
    assert str(caught.value).endswith("\n  at: float16[256,136]")


def test_an_allowed_rule_may_be_broken():
    large = partial(t.product, m=256, n=128)
    with pytest.raises(LevelError, match="KG402"):
        checked(large)
    assert checked(large, allow=("KG402",)) == []


def test_an_allowed_rule_that_is_not_broken_is_noted():
    # Whether KG502 is broken no trace shows.
    assert checked(t.product, allow=("KG402", "KG502")) == [
        "KG402 is allowed to be broken, but no kernel breaks it"
    ]


def test_an_error_that_is_no_rule_is_told_as_it_is():
    def wrong():
        raise ValueError("not today")

    with pytest.raises(LevelError) as caught:
        checked(wrong)
    assert "ValueError: not today" in str(caught.value)


def test_later_traces_meet_the_checks_of_jax_again():
    wrong = partial(t.product, n=24)
    with pytest.raises(LevelError, match="KG103"):
        checked(wrong)
    with pytest.raises(AssertionError):
        jax.jit(wrong).trace()


def test_a_jax_that_lacks_a_piece(monkeypatch):
    from jax._src.pallas.mosaic_gpu import primitives

    monkeypatch.delattr(primitives, "wgmma_ref_p")
    with pytest.raises(
        NotModelledError, match=r"^not checked on jax 0\.[0-9.]+: .*wgmma"
    ):
        checked(t.product)


def test_a_gpu_that_is_not_known():
    asks = dataclasses.replace(asked(()), arch="sm_75")
    with pytest.raises(NotModelledError, match="not checked: sm_75 is not one of"):
        static.run(t.product, asks, MODULE, ignore)


def test_a_module_with_a_fault_fails_in_the_worker():
    source = broken(
        ("TILE_M, TILE_N, TILE_K = 64, 64", "TILE_M, TILE_N, TILE_K = 64, 24")
    )
    sizes = ((128, 192, 128),)
    verdict = verify(request(source, sizes=sizes), levels=("static",), cache=False)
    assert verdict.failure.level == "static"
    assert verdict.failure.detail.startswith("KG103 n = 24 of the wgmma")
    assert codes(verdict.failure.detail) == ["KG103"]
    assert (
        "small_matmul.py:41: plgpu.wgmma(acc, a_smem, b_smem)" in verdict.failure.detail
    )


def test_what_a_spec_allows_is_allowed_of_its_module(tmp_path):
    text = '[tile]\nm = 256\nn = 128\n[verify]\nallow = ["KG402"]\n'
    path = tmp_path / "large_tile.toml"
    path.write_text('[kernel]\nname = "large_tile"\nop = "matmul"\n' + text)
    (plan,) = plan_all([path])
    asks = request_of(plan, render(plan, verified=True))
    assert verify(asks, levels=("static",), cache=False).passed
    refused = verify(
        dataclasses.replace(asks, allow=()), levels=("static",), cache=False
    )
    assert codes(refused.failure.detail) == ["KG402"]


def test_where_jax_refuses_what_a_spec_allows_is_told(tmp_path):
    text = '[kernel]\nname = "odd_rows"\nop = "matmul"\n[tile]\nm = 100\n'
    path = tmp_path / "odd_rows.toml"
    path.write_text(text + '[verify]\nallow = ["KG101"]\n')
    (plan,) = plan_all([path])
    asks = request_of(plan, render(plan, verified=True))
    verdict = verify(asks, levels=("static", "lower"), cache=False)
    assert verdict.failure.level == "lower"
    first, found, at, hint = verdict.failure.detail.splitlines()
    assert first.endswith(": JAX refuses a kernel that is allowed to break KG101")
    assert found.startswith("  found: AssertionError without a message, raised by ")
    assert at.startswith("  at: odd_rows.py:")
    assert hint.endswith("remove it from verify.allow; see `kgen rule KG101`")


PLANS = [plan for plan in plan_all([ROOT / "specs"]) if plan.op == "matmul"]


def launch(plan, case):
    """The grid, in clusters, and the cluster that a size is launched with."""
    m, n = (
        -(-size // block)
        for size, block in zip((case.m, case.n), plan.blocks, strict=False)
    )
    matrices = math.prod(np.broadcast_shapes(case.a_batch, case.b_batch))
    cluster = (plan.cluster,) if plan.cluster > 1 else ()
    if plan.persistent:
        sms = SM_90A.num_sms if case.num_sms is None else case.num_sms
        tiles = matrices * m * n
        rounds = math.ceil(tiles / (sms // plan.cluster))
        return (math.ceil(tiles / rounds),), cluster
    tiles = (m, n) if plan.raster is None else (m * n,)
    if plan.batched:
        tiles = (matrices, *tiles)
    return ((plan.split_k, *tiles) if plan.split_k > 1 else tiles), cluster


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_the_facts_of_a_rendered_module_agree_with_its_plan(plan):
    path = ROOT / "generated" / f"{plan.name}.py"
    function = imported(path).matmul
    rendered = types.SimpleNamespace(name=plan.name, source=path.read_text("utf-8"))
    asks = request_of(plan, rendered)
    assert static.run(function, asks, path, ignore) == []
    for case in asks.cases:
        kernel, *of_gradients = static.facts(function, asks, case, path)
        assert len(of_gradients) == 2 * case.differentiate
        assert kernel.smem_bytes == case.smem_bytes
        assert (kernel.grid, kernel.cluster) == launch(plan, case)
        assert kernel.num_threads == plan.num_warpgroups
        first, second = plan.layout[0] == "n", plan.layout[1] == "t"
        rows, columns = plan.wg_m, plan.wg_n
        if plan.swap_operands:
            rows, columns, first, second = columns, rows, second, first
        assert {(p.m, p.n, p.b.shape[0]) for p in kernel.wgmmas} == {
            (rows, columns, plan.tile_k)
        }
        majors = {(p.a.k_major, p.b.k_major) for p in kernel.wgmmas}
        assert majors == {(first, second)}
        swizzles = {p.a.layout.swizzle for p in kernel.wgmmas}
        assert swizzles == {plan.operand_layout.swizzle}
        accumulators = [a for a in kernel.allocations if a.space == "accumulator"]
        # The total of promoted sums lies in registers beside the accumulator.
        one = plan.registers.accumulator // (1 + plan.promote)
        assert {a.registers for a in accumulators} == {one}
        memory = {c.count for c in kernel.registers if not c.increase}
        wanted = {plan.memory_registers} if plan.memory_registers else set()
        assert memory == wanted


def upstream_kernel(name):
    module = importlib.import_module(f"jax.experimental.pallas.ops.gpu.{name}")
    upstream.pose_as_gpu(SM_90A)
    return module


def traced_facts(function, *operands):
    known = pieces.load()
    with pieces.lenient_layouts(known):
        jaxpr = jax.jit(function).trace(*operands).jaxpr.jaxpr
    return static.walk.kernels(known, jaxpr, Path("upstream.py"), SM_90A)


def findings(function, *operands):
    kernels = traced_facts(function, *operands)
    assert kernels
    assert all(kernel.wgmmas or kernel.mmas for kernel in kernels)
    return [
        finding.text(code)
        for kernel in kernels
        for code, finding in static.check(kernel)
    ]


@pytest.mark.parametrize("cluster", [None, "M", "N"])
def test_the_matmul_of_jax_is_legal(cluster):
    module = upstream_kernel("hopper_matmul_mgpu")
    dimension = cluster and module.MatmulDimension[cluster]
    config = module.TuningConfig(
        tile_m=128,
        tile_n=128,
        tile_k=64,
        max_concurrent_steps=4,
        cluster_dimension=dimension,
    )
    a = Struct((2048, 2048), BF16)
    assert findings(lambda a, b: module.matmul(a, b, None, config), a, a) == []


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_the_attention_of_jax_is_legal(head_dim, causal, monkeypatch):
    module = upstream_kernel("attention_mgpu")
    cuda = types.SimpleNamespace(cuda_runtime_get_version=lambda: 13_000)
    monkeypatch.setattr(module, "cuda_versions", cuda)
    backward = ("block_q_dkv", "block_kv_dkv", "block_q_dq", "block_kv_dq")
    config = module.TuningConfig(
        block_q=64,
        block_kv=64,
        max_concurrent_steps=2,
        causal=causal,
        **dict.fromkeys(backward, 64),
    )
    q = Struct((1, 512, 4, head_dim), F16)

    def loss(q, k, v):
        return module.attention(q, k, v, config, False).astype(F32).sum()

    assert findings(partial(module.attention, config=config), q, q, q) == []
    if not causal:  # Upstream has no gradient of the other.
        assert findings(jax.grad(loss, argnums=(0, 1, 2)), q, q, q) == []
        emitter = module.attention_with_pipeline_emitter
        assert findings(partial(emitter, config=config), q, q, q) == []


def test_the_ragged_products_of_jax_are_legal():
    blocks = {"block_m": 64, "block_n": 128, "block_k": 64, "max_concurrent_steps": 2}
    blocks["grid_block_n"] = 2
    groups, a = Struct((4,), jnp.int32), Struct((512, 512), BF16)
    ragged = upstream_kernel("ragged_dot_mgpu").ragged_dot
    transposed = upstream_kernel("transposed_ragged_dot_mgpu").transposed_ragged_dot

    def run(function, a, b, groups):
        return function(a, b, group_sizes=groups, **blocks)

    assert findings(partial(run, ragged), a, Struct((4, 512, 512), BF16), groups) == []
    assert findings(partial(run, transposed), a, a, groups) == []


def test_the_mixed_type_matmul_of_jax_is_legal():
    module = upstream_kernel("hopper_mixed_type_matmul_mgpu")
    config = module.TuningConfig(
        tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2
    )
    kernel = partial(module.mixed_matmul_kernel, out_dtype=BF16, config=config)
    a, b = Struct((512, 512), jnp.int8), Struct((512, 512), BF16)
    assert findings(kernel, a, b) == []


@pytest.mark.parametrize("collective", [False, True])
def test_the_blackwell_matmul_of_jax_is_legal(collective):
    module = upstream_kernel("blackwell_matmul_mgpu")
    config = module.TuningConfig(
        tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=4, collective=collective
    )
    a = Struct((1024, 1024), F16)
    kernel = functools.partial(module.matmul_kernel, config=config)
    assert findings(kernel, a, a) == []
