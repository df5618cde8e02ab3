"""What a module's text says of it."""

from pathlib import Path

import pytest

from kgen import module_text, pipeline

ROOT = Path(__file__).parents[2]
ALL_PLANS = {plan.name: plan for plan in pipeline.plan_all([ROOT / "specs"])}
PLANS = {name: plan for name, plan in ALL_PLANS.items() if plan.op == "matmul"}


@pytest.mark.parametrize("name", PLANS)
def test_a_rendered_module_says_what_its_plan_says(name):
    plan = PLANS[name]
    text = (ROOT / "generated" / f"{name}.py").read_text(encoding="utf-8")
    assert module_text.describe(text) == module_text.Described(
        function=plan.op,
        arch=plan.arch,
        layout=plan.layout,
        out_order=plan.out_order,
        operand_dtype=plan.operand_dtype,
        b_dtype=plan.b_dtype,
        out_dtype=plan.out_dtype,
        multiples=plan.units,
        tile=(plan.tile_m, plan.tile_n, plan.tile_k),
        stages=plan.max_concurrent_steps,
        cluster=plan.cluster,
        persistent=plan.persistent,
        promoted=plan.tile_k * plan.promote,
        epilogue=plan.epilogue,
        scale_block=plan.scale_block or 0,
        batched=plan.batched,
        to_differentiate=plan.units_to_differentiate if plan.autodiff else None,
    )


def test_a_dispatch_module_says_what_one_of_its_kernels_can_do():
    plan = ALL_PLANS["matmul_h200"]
    text = (ROOT / "generated" / "matmul_h200.py").read_text(encoding="utf-8")
    described = module_text.describe(text)
    assert described.function == "matmul"
    assert described.multiples in {kernel.units for kernel in plan.kernels}
    assert (described.stages, described.cluster, described.persistent) == (1, 1, False)


OPERANDS = """    a    {a}[m, k]    m a multiple of 64
    b    {b}[{axes}]
    out  float16[m, n]

    from x import f
(sm_90a)
"""


@pytest.mark.parametrize(
    ("docstring", "reason"),
    [
        ("", "its docstring does not list a, b and out"),
        (
            OPERANDS.format(a="float16", b="int8", axes="k, n"),
            "the dtypes float16, int8",
        ),
        (OPERANDS.format(a="float16", b="float16", axes="k, m"), r"\[k, m\]"),
    ],
)
def test_what_says_nothing_is_told(docstring, reason):
    with pytest.raises(module_text.NotDescribedError, match=reason):
        module_text.describe(f'"""x\n\n{docstring}"""\n')


def test_what_is_not_said_is_one():
    docstring = OPERANDS.format(a="float16", b="float16", axes="k, n")
    found = module_text.describe(f'"""x\n\n{docstring}"""\n')
    assert (found.multiples, found.stages) == ((64, 1, 1), 1)


def test_names_that_may_be_functions():
    text = "from x import y as z\ng = h = 1\ndef f(): pass\nclass C: pass\n"
    assert module_text.functions(text) == ("z", "g", "h", "f")


def test_functions_that_a_user_may_mean():
    text = "from a import b\nN = 1\ndef _f(): ...\ng = jax.jit(_f)\ndef h(): ...\n"
    assert module_text.offered(text) == ("g", "h")
