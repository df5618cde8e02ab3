"""Gated linear units, lowered and simulated; what a spec may not ask for."""

import importlib.util

import jax.numpy as jnp
import numpy as np
import pytest
from oldest import every_third

from kgen import module_text, targets
from kgen.emit.render import render
from kgen.errors import SpecError
from kgen.pipeline import request_of
from kgen.plan import make_plan
from kgen.spec.load import load_file
from kgen.verify import lower, simulate
from kgen.verify.explain import LevelError

HEAD = '[kernel]\nname = "gated_unit"\nop = "glu"\n'
SCHEDULE = "[schedule]\nwarp_specialized = true\npersistent = true\n"
CASES = {
    "silu": HEAD + "[tile]\nm = 128\nn = 64\n" + SCHEDULE,
    "gelu_nt": HEAD
    + 'layout = "nt"\nactivation = "gelu"\n[tile]\nm = 64\nn = 64\n'
    + '[dtypes]\na = "float16"\nb = "float16"\nout = "float32"\n'
    + SCHEDULE
    + "num_compute_wgs = 1\n",
    "any_edge": HEAD
    + '[shapes]\nedge = "any"\n[tile]\nm = 64\nn = 64\n'
    + SCHEDULE
    + "num_compute_wgs = 1\n",
    "swapped": HEAD
    + "[tile]\nm = 24\nn = 128\n[store]\nm = 16\n"
    + SCHEDULE
    + "swap_operands = true\n",
    "gate_first": HEAD
    + 'layout = "nt"\n[shapes]\nedge = "any"\n[tile]\nm = 40\nn = 128\n'
    + "[pipeline]\nmax_concurrent_steps = 3\ngate_first = 3\n"
    + SCHEDULE
    + "swap_operands = true\n",
    "gate_first_by_columns": HEAD
    + "[tile]\nm = 128\nn = 128\n[pipeline]\ngate_first = 1\n"
    + SCHEDULE,
}


def made(directory, text):
    path = directory / "glu.toml"
    path.write_text(text, "utf-8")
    (spec,) = load_file(path)
    return make_plan(spec)


def imported(directory, source):
    path = directory / "gated_unit.py"
    path.write_text(source, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module


def small(request, *indices):
    import dataclasses

    cases = tuple(request.cases[index] for index in indices)
    return dataclasses.replace(request, cases=cases)


@pytest.mark.parametrize("name", every_third((each,) for each in CASES))
def test_it_is_right(tmp_path, name):
    plan = made(tmp_path, CASES[name])
    rendered = render(plan, verified=False)
    path, module = imported(tmp_path, rendered.source)
    request = small(request_of(plan, rendered), 0, 4)
    lower.run(module.glu, request, path, print)
    simulate.run(module.glu, request, path, print)


def test_gate_and_up_may_not_be_swapped(tmp_path):
    plan = made(tmp_path, CASES["silu"])
    rendered = render(plan, verified=False)
    swapped = rendered.source.replace(
        "_forward_only(x, w_gate, w_up)", "_forward_only(x, w_up, w_gate)"
    )
    assert swapped != rendered.source
    path, module = imported(tmp_path, swapped)
    with pytest.raises(LevelError, match="elements are wrong"):
        simulate.run(module.glu, small(request_of(plan, rendered), 0), path, print)


def test_a_module_says_what_it_computes(tmp_path):
    plan = made(tmp_path, CASES["gelu_nt"])
    source = render(plan, verified=False).source
    described = module_text.describe(source)
    assert (described.function, described.activation) == ("glu", "gelu")
    assert (described.layout, described.out_dtype) == ("nt", "float32")
    assert described.multiples == plan.units
    path = tmp_path / "gated_unit.py"
    path.write_text(source, "utf-8")
    (target,) = targets.find_targets([str(path)], targets.Asked(), lambda *_: None)
    asked = request_of(plan, render(plan, verified=False))
    assert (target.request.op, target.request.parameters) == (
        asked.op,
        asked.parameters,
    )


def test_smem_and_registers_are_those_of_both_weights(tmp_path):
    plan = made(tmp_path, CASES["silu"])
    names = [buffer.name for buffer in plan.smem.buffers]
    assert names[:3] == ["x_smem", "gate_smem", "up_smem"]
    assert plan.registers.accumulator == 2 * 64 * 64 // 128


@pytest.mark.parametrize(
    ("tables", "codes"),
    [
        ("[schedule]\nwarp_specialized = true\n", {"KG650"}),
        (SCHEDULE + "[cluster]\nm = 2\n", {"KG651"}),
        (SCHEDULE + '[[epilogue]]\nop = "relu"\n', {"KG651"}),
        ("[tile]\nm = 128\nn = 256\n" + SCHEDULE, {"KG402", "KG401"}),
        (
            SCHEDULE + "[pipeline]\nmax_concurrent_steps = 2\ngate_first = 3\n",
            {"KG653"},
        ),
        (SCHEDULE + "[store]\nm = 16\n", {"KG654"}),
        (SCHEDULE + "swap_operands = true\n[store]\nm = 12\n", {"KG654"}),
        (
            "[tile]\nm = 64\nn = 256\n"
            + SCHEDULE
            + "swap_operands = true\n[store]\nn = 64\n",
            {"KG655"},
        ),
    ],
)
def test_what_it_cannot_be_is_refused(tmp_path, tables, codes):
    with pytest.raises(SpecError) as error:
        made(tmp_path, HEAD + tables)
    assert {problem.code for problem in error.value.problems} <= codes


def test_bad_operands_are_refused(tmp_path):
    source = render(made(tmp_path, CASES["silu"]), verified=False).source
    _, module = imported(tmp_path, source)
    x, w = jnp.zeros((128, 64), jnp.bfloat16), jnp.zeros((64, 64), jnp.bfloat16)
    with pytest.raises(ValueError, match="w_gate and w_up must agree in shape"):
        module.glu(x, w, jnp.zeros((64, 128), jnp.bfloat16))
    with pytest.raises(ValueError, match="w_up must be bfloat16, got float16"):
        module.glu(x, w, w.astype(np.float16))
