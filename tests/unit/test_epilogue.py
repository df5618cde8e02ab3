"""Epilogues: their steps as text, as numbers, and what a spec may not say."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from made import load, plan

from kgen import module_text
from kgen.emit.render import render
from kgen.epilogue import numerics, steps
from kgen.epilogue.steps import Step
from kgen.errors import SpecError
from kgen.plan.legality.epilogue import TAKEN
from kgen.spec.locate import locate
from kgen.verify import epilogue
from kgen.verify.compare import BadReferenceError

CHAIN = "".join(
    f"[[epilogue]]\n{step}\n"
    for step in (
        'op = "scale"',
        'op = "scale"\nvalue = 0.5',
        'op = "scale_rows"',
        'op = "scale_columns"',
        'op = "bias"',
        'op = "bias"\nalong = "m"\nargument = "row_bias"\ndtype = "float32"',
        'op = "residual"\nbeta = -0.25',
        'op = "relu"',
        'op = "gelu"',
        'op = "gelu"\napproximate = "erf"',
        'op = "silu"',
        'op = "tanh"',
        'op = "sigmoid"',
        'op = "clamp"\nmin = -1.5',
        'op = "save"',
        'op = "softcap"\ncap = 30',
    )
)


def evaluate(step, product, argument=None, **options):
    options = {"exact": True, "approximates": False} | options
    x = np.array(product, np.float64)
    arguments = {} if argument is None else {step.argument: np.array(argument, float)}
    (output,) = numerics.evaluate([step], x, np.zeros_like(x), arguments, **options)
    return output


def test_a_module_says_what_its_epilogue_is(tmp_path):
    made = plan(tmp_path, CHAIN)
    described = module_text.describe(render(made, verified=False).source)
    assert described.epilogue == made.epilogue


def test_steps_survive_json(tmp_path):
    made = plan(tmp_path, CHAIN).epilogue
    assert steps.from_json(steps.to_json(made)) == made


@pytest.mark.parametrize(
    "text", ["{}", "[1]", '[{"op": "halve"}]', '[{"oper": "relu"}]']
)
def test_json_of_no_steps_is_refused(text):
    with pytest.raises(ValueError, match="step"):
        steps.from_json(text)


def test_a_docstring_with_another_step_is_refused():
    with pytest.raises(ValueError, match=r"no step of an epilogue: halve\(x=1\)"):
        steps.read("    halve(x=1)  x / 2\n")


@pytest.mark.parametrize(
    ("step", "argument", "expected"),
    [
        (Step(op="scale", value=0.5), None, [[-2.0, 3.0]]),
        (Step(op="scale", argument="s", dtype="float32"), 2.0, [[-8.0, 12.0]]),
        (Step(op="scale_rows", argument="s", dtype="float32"), [3.0], [[-12.0, 18.0]]),
        (
            Step(op="scale_columns", argument="s", dtype="float32"),
            [1.0, 2.0],
            [[-4.0, 12.0]],
        ),
        (Step(op="bias", argument="b", along="n"), [1.0, 2.0], [[-3.0, 8.0]]),
        (Step(op="bias", argument="b", along="m"), [1.0], [[-3.0, 7.0]]),
        (Step(op="residual", argument="r", value=0.5), [[2.0, 4.0]], [[-3.0, 8.0]]),
        (Step(op="relu"), None, [[0.0, 6.0]]),
        (Step(op="clamp", low=-1.0, high=2.0), None, [[-1.0, 2.0]]),
        (Step(op="clamp", high=2.0), None, [[-4.0, 2.0]]),
    ],
    ids=lambda value: value.op if isinstance(value, Step) else "",
)
def test_linear_steps_are_exact(step, argument, expected):
    output = evaluate(step, [[-4.0, 6.0]], argument)
    assert output.values.tolist() == expected
    assert output.exact


def test_a_cast_rounds_to_nearest():
    output = evaluate(Step(op="cast", dtype="bfloat16"), [[257.0, 259.0]])
    assert output.values.tolist() == [[256.0, 260.0]]
    assert output.exact


@pytest.mark.parametrize("exact", [True, False])
def test_nothing_is_said_of_what_a_cast_overflows(exact):
    cast = Step(op="cast", dtype="float16")
    product = np.array([[70_000.0, -70_000.0, 60_000.0, 65_504.0]])
    (output,) = numerics.evaluate(
        (cast, Step(op="scale", value=0.0)),
        product,
        np.zeros_like(product) if exact else np.ones_like(product),
        {},
        exact=exact,
        approximates=False,
    )
    settled = np.isfinite(output.values) & np.isfinite(output.error)
    # 65520 is where infinity begins: an error and a rounding reach it from 65504.
    assert settled.tolist() == [[False, False, True, exact]]


def of_overflow(product, found):
    """Returns what is said of a chain that casts to float16 and halves."""
    chain = (Step(op="cast", dtype="float16"), Step(op="scale", value=0.5))
    outputs = numerics.evaluate(
        chain, product, np.zeros_like(product), {}, exact=True, approximates=False
    )
    return epilogue.check(
        [found],
        outputs,
        magnitude=np.abs(product),
        out_dtype="float32",
        operand_dtype="float32",
        suspects=tuple,
    )


def test_elements_that_overflow_within_an_epilogue_are_not_compared():
    product = np.array([[70_000.0, 2.0, 4.0]])
    assert of_overflow(product, np.array([[np.inf, 1.0, 2.0]])) is None
    assert of_overflow(product, np.array([[35_000.0, 1.0, 2.0]])) is None
    assert "got 3, expected 2" in of_overflow(product, np.array([[np.inf, 1.0, 3.0]]))


def test_an_epilogue_that_mostly_overflows_is_no_test():
    product = np.array([[70_000.0, 70_000.0, 4.0]])
    with pytest.raises(BadReferenceError, match=r"2 of 3 .* within the epi"):
        of_overflow(product, product)


def test_what_float32_cannot_hold_is_not_exact():
    assert not evaluate(Step(op="scale", value=0.1), [[3.0]]).exact


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Step(op="silu"), 1 / (1 + math.exp(-1))),
        (Step(op="sigmoid"), 1 / (1 + math.exp(-1))),
        (Step(op="tanh"), math.tanh(1)),
        (Step(op="softcap", value=2.0), 2 * math.tanh(0.5)),
        (Step(op="gelu", approximate="erf"), 0.5 * (1 + math.erf(0.5**0.5))),
        (
            Step(op="gelu", approximate="tanh"),
            0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715)),
        ),
    ],
    ids=lambda value: (
        f"{value.op}{value.approximate}" if isinstance(value, Step) else ""
    ),
)
def test_activations(step, expected):
    output = evaluate(step, [[1.0]])
    assert output.values[0, 0] == pytest.approx(expected, rel=1e-12)
    assert not output.exact
    assert 0 < output.error[0, 0] < 1e-5


@pytest.mark.parametrize("op", ["silu", "sigmoid", "tanh", "gelu"])
def test_large_values_are_no_error(op):
    step = Step(op=op, approximate="tanh" if op == "gelu" else "")
    output = evaluate(step, [[-2000.0, 2000.0]])
    assert np.isfinite(output.values).all()
    assert np.isfinite(output.error).all()


def test_an_error_grows_with_what_multiplies_it():
    x, error = np.array([[1.0]]), np.array([[0.01]])
    chain = [Step(op="scale", value=-4.0), Step(op="relu")]
    (output,) = numerics.evaluate(chain, x, error, {}, exact=False, approximates=False)
    assert output.error[0, 0] == pytest.approx(0.04, rel=1e-5)


def test_the_hardware_s_tanh_may_be_off_by_more():
    step = Step(op="tanh")
    near = evaluate(step, [[1.0]]).error
    far = evaluate(step, [[1.0]], approximates=True).error
    assert near < 1e-5
    assert 3e-4 < far < 1e-3


def test_saved_is_what_it_was_at_its_place():
    chain = [Step(op="save"), Step(op="relu")]
    x = np.array([[-1.0, 1.0]])
    result, saved = numerics.evaluate(
        chain, x, np.zeros_like(x), {}, exact=True, approximates=False
    )
    assert result.values.tolist() == [[0.0, 1.0]]
    assert saved.values.tolist() == [[-1.0, 1.0]]


def test_a_product_that_would_saturate_is_drawn_smaller():
    assert numerics.shrink([Step(op="tanh")], 64.0) == 2.0**-6
    assert numerics.shrink([Step(op="relu")], 64.0) == 1.0


def test_whole_scales_and_products_stay_as_they_are(tmp_path):
    """Pieces of at most 64 columns lie in registers beside the accumulator."""
    tables = "[tile]\nm = 64\nn = 128\n"
    assert plan(tmp_path, tables).store_n == 128
    chained = plan(tmp_path, tables + '[[epilogue]]\nop = "relu"\n')
    assert (chained.store_n, chained.store_slots) == (64, 2)


def test_two_outputs_take_turns_in_the_slots(tmp_path):
    made = plan(
        tmp_path,
        "[tile]\nm = 64\nn = 64\n"
        '[[epilogue]]\nop = "save"\n[[epilogue]]\nop = "relu"\n',
    )
    assert (made.store_n, made.store_slots, made.stores) == (64, 2, 2)


def refusal(tmp_path, text):
    with pytest.raises(SpecError) as error:
        load(tmp_path, text)
    return str(error.value).replace(f"{tmp_path}/made_for_a_test_run.toml", "spec")


OPS = (
    '"scale", "scale_rows", "scale_columns", "bias", "residual", "relu", "gelu", '
    '"silu", "tanh", "sigmoid", "clamp", "softcap", "cast" or "save"'
)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            'op = "gel"',
            'spec:2: KG005 epilogue[0].op = "gel" is not allowed\n'
            f'  allowed: {OPS}\n  hint: did you mean "gelu"?',
        ),
        (
            "value = 0.5",
            "spec:1: KG006 epilogue[0].op is missing\n"
            '  hint: add op = "..." to this [[epilogue]]',
        ),
        (
            'op = "relu"\nvalue = 0.5',
            "spec:3: KG003 unknown key epilogue[0].value\n  allowed: op",
        ),
        (
            'op = "softcap"\ncap = 0',
            "spec:3: KG005 epilogue[0].cap = 0 is out of range\n"
            "  allowed: a number from 1e-30 to 1e+30",
        ),
        (
            'op = "softcap"\ncap = 1e-50',
            "spec:3: KG005 epilogue[0].cap = 1e-50 is out of range\n"
            "  allowed: a number from 1e-30 to 1e+30",
        ),
        (
            'op = "scale"\nvalue = true',
            "spec:3: KG004 epilogue[0].value = true is a boolean, an integer or a "
            "float is expected\n  allowed: a number from -1e+30 to 1e+30",
        ),
        (
            'op = "clamp"\nmax = nan',
            "spec:3: KG005 epilogue[0].max = nan is not allowed\n"
            "  allowed: a number from -1e+30 to 1e+30",
        ),
    ],
)
def test_a_step_is_of_its_own_type(tmp_path, step, message):
    assert refusal(tmp_path, f"[[epilogue]]\n{step}\n") == message


def test_a_single_table_is_told_apart(tmp_path):
    assert "write [[epilogue]] with double brackets" in refusal(
        tmp_path, '[epilogue]\nop = "relu"\n'
    )


def test_steps_have_lines():
    lines = locate('[[epilogue]]\nop = "relu"\n[[epilogue]]\nop = "save"\n')
    assert lines["epilogue", 1, "op"] == 4


GENERATED = Path(__file__).parents[2] / "generated"


def names_beside_arguments(path):
    """Names of a module, in functions that take what its epilogue takes."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    (matmul,) = (f for f in functions if f.name == "matmul")
    arguments = {argument.arg for argument in matmul.args.args[2:]}
    arguments -= {"a_scale", "b_scale"}  # Of the operands.
    for function in functions:
        own = {argument.arg for argument in function.args.args}
        if own & arguments:
            nodes = list(ast.walk(function))
            yield from {node.id for node in nodes if isinstance(node, ast.Name)} - own
            yield from own - arguments
            yield from {f.name for f in nodes if isinstance(f, ast.FunctionDef)}


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in sorted(GENERATED.glob("*.py"))
        if "def matmul(" in p.read_text("utf-8")
    ],
    ids=lambda path: path.stem,
)
def test_no_argument_can_be_called_what_a_module_uses(path):
    # Capitals are refused as well; a name of the spec begins with a letter.
    used = {
        name
        for name in names_beside_arguments(path)
        if not name.isupper()
        and not name.startswith("_")
        and not name.endswith("_gmem")
    }
    assert used <= TAKEN


@pytest.mark.parametrize("name", ["a_scale", "min", "batch", "multiply", "math"])
def test_such_a_name_is_refused(tmp_path, name):
    step = f'[[epilogue]]\nop = "bias"\nargument = "{name}"\n'
    with pytest.raises(SpecError) as error:
        plan(tmp_path, step)
    (problem,) = error.value.problems
    assert problem.code == "KG640"
    assert str(problem.message).endswith("is a name that the module uses itself")
