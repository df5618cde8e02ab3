"""KG64x: epilogues."""

import keyword
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.layouts import COLUMN
from kgen.plan.legality.base import Finding, rule
from kgen.spec import epilogue as spec

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

WS = "[schedule]\nwarp_specialized = true\n"
# What a generated module calls something else.
TAKEN = frozenset(
    {
        *("a", "b", "m", "n", "k", "x", "interpret", "num_sms", "kernel", "tiles"),
        *("matmul", "reference", "saved", "out", "functools", "jax", "jnp", "lax"),
        *("pl", "plgpu", "b_k", "name", "argument", "shape", "dtype", "ValueError"),
        *("module", "np", "os", "pytest", "rng", "draw", "result", "range"),
        *("a_scale", "b_scale", "batch", "batches", "num_matrices", "multiply"),
        *("is_mapped", "operands", "math", "matmul_torch", "tensor", "torch"),
        *("int", "len", "min", "tuple", "zip", "each"),
    }
)
WITH_GRADIENTS = frozenset({"outs", "terms"})


@rule(
    "KG640",
    title="The arguments of an epilogue have names of their own",
    reason="They are arguments of the generated function, beside a and b. Two steps "
    "that take one argument each, such as two biases, need two names.",
    source="The Python Language Reference, Function definitions",
    bad='[[epilogue]]\nop = "bias"\n[[epilogue]]\nop = "bias"\nalong = "m"',
    good='[[epilogue]]\nop = "bias"\n[[epilogue]]\nop = "bias"\nalong = "m"\n'
    'argument = "row_bias"',
)
def argument_names(candidate: "Candidate") -> Iterator[Finding]:
    seen: set[str] = set()
    for index, step in enumerate(candidate.epilogue):
        name = step.argument
        if not name:
            continue
        fault = None
        if name in seen:
            fault = "is the argument of another step, too"
        elif candidate.autodiff and name in WITH_GRADIENTS:
            fault = "is a name that a module with gradients uses itself"
        elif keyword.iskeyword(name):
            fault = "is a keyword of Python"
        elif name in TAKEN or name.isupper():
            fault = "is a name that the module uses itself"
        seen.add(name)
        if fault is not None:
            yield Finding(
                f"epilogue.{index}.argument",
                f'epilogue[{index}].argument = "{name}" {fault}',
                "another identifier",
                f'set argument = "..." in epilogue[{index}]; see `kgen rule KG640`',
            )


@rule(
    "KG641",
    title="A scale has a value or an argument",
    reason="A constant is part of the module; an argument is given with every call. A "
    "step with both would have to ignore one.",
    source="kgen",
    bad='[[epilogue]]\nop = "scale"\nvalue = 0.5\nargument = "alpha"',
    good='[[epilogue]]\nop = "scale"\nargument = "alpha"',
)
def one_factor(candidate: "Candidate") -> Iterator[Finding]:
    for index, step in enumerate(candidate.spec.epilogue):
        if isinstance(step, spec.Scale) and step.value is not None and step.argument:
            yield Finding(
                f"epilogue.{index}.argument",
                f"epilogue[{index}] has value = {step.value:g} and argument = "
                f'"{step.argument}"',
                "one of the two",
            )


@rule(
    "KG642",
    title="A clamp has limits, the lower one first",
    reason="Without any it would do nothing, and with min above max everything would "
    "become one value.",
    source="kgen",
    bad='[[epilogue]]\nop = "clamp"\nmin = 6.0\nmax = 0.0',
    good='[[epilogue]]\nop = "clamp"\nmin = 0.0\nmax = 6.0',
)
def limits(candidate: "Candidate") -> Iterator[Finding]:
    for index, step in enumerate(candidate.spec.epilogue):
        if not isinstance(step, spec.Clamp):
            continue
        if step.min is None and step.max is None:
            yield Finding(
                f"epilogue.{index}",
                f"epilogue[{index}] is a clamp without min and max",
                "min, max or both",
            )
        elif step.min is not None and step.max is not None and step.min > step.max:
            yield Finding(
                f"epilogue.{index}.min",
                # In all digits: rounded ones may look alike.
                f"epilogue[{index}].min = {step.min} is above max = {step.max}",
                f"at most {step.max}",
            )


@rule(
    "KG643",
    title="A pallas_call has no epilogue",
    reason="Its body sees blocks that a block spec describes and that change along k. "
    "Vectors and scalars do not, and would be loaded anew with every step.",
    source="JAX, plgpu.emit_pipeline",
    bad='[kernel]\nentry_point = "pallas_call"\n[[epilogue]]\nop = "bias"',
    good='[kernel]\nentry_point = "kernel"\n[[epilogue]]\nop = "bias"',
)
def no_pallas_call(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.schedule == "pallas_call" and candidate.epilogue:
        yield Finding(
            "kernel.entry_point",
            'entry_point = "pallas_call" with an epilogue',
            'entry_point = "kernel"',
        )


@rule(
    "KG644",
    title="With swapped operands nothing is added that is a matrix",
    reason="The accumulator is the transposed product. A residual would be loaded from "
    "GMEM across its rows, an element at a time.",
    source="Mosaic GPU, WGMMA layout",
    bad='[tile]\nm = 16\nn = 128\n[[epilogue]]\nop = "residual"\n'
    + WS
    + "swap_operands = true",
    good='[tile]\nm = 16\nn = 128\n[[epilogue]]\nop = "bias"\n'
    + WS
    + "swap_operands = true",
)
def no_swapped_matrix(candidate: "Candidate") -> Iterator[Finding]:
    if not candidate.swap_operands or candidate.split_k > 1:
        return
    for index, step in enumerate(candidate.epilogue):
        if step.op == "residual":
            yield Finding(
                f"epilogue.{index}",
                f"epilogue[{index}] is a residual with swap_operands = true",
                "swap_operands = false",
            )


@rule(
    "KG645",
    title="One place of an epilogue is saved, and not its end",
    reason="There is one second output. At the end of the chain it would be the first "
    "output once more.",
    source="kgen",
    bad='[[epilogue]]\nop = "gelu"\n[[epilogue]]\nop = "save"',
    good='[[epilogue]]\nop = "save"\n[[epilogue]]\nop = "gelu"',
)
def one_save(candidate: "Candidate") -> Iterator[Finding]:
    steps = candidate.epilogue
    places = [index for index, step in enumerate(steps) if step.op == "save"]
    for index in places[1:]:
        yield Finding(
            f"epilogue.{index}", f"epilogue[{index}] is a second save", "one of them"
        )
    if places and places[0] == len(steps) - 1:
        yield Finding(
            f"epilogue.{places[0]}",
            f"epilogue[{places[0]}] saves what is the output anyway",
            "a step after it, or without it",
        )


@rule(
    "KG646",
    title="A cast is not in the epilogue of a split K",
    reason="The parts of K are added outside of the kernel, and the epilogue comes "
    "after that, in XLA. XLA may keep a value in float32 that is cast to a narrower "
    "dtype and back.",
    source="XLA, xla_allow_excess_precision",
    bad=WS + 'split_k = 2\n[[epilogue]]\nop = "cast"\ndtype = "float16"\n'
    '[[epilogue]]\nop = "relu"',
    good=WS + 'split_k = 2\n[[epilogue]]\nop = "relu"',
)
def no_cast_outside(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.split_k == 1:
        return
    for index, step in enumerate(candidate.epilogue):
        if step.op == "cast":
            yield Finding(
                f"epilogue.{index}",
                f"epilogue[{index}] is a cast with split_k = {candidate.split_k}",
                "no cast, or no split_k",
            )


@rule(
    "KG647",
    title="An epilogue makes rows",
    reason="The outputs lie in rows, as a residual does.",
    source="kgen",
    bad='[kernel]\nout_order = "column"\n[[epilogue]]\nop = "bias"',
    good='[kernel]\nout_order = "row"\n[[epilogue]]\nop = "bias"',
)
def rows_alone(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.epilogue and candidate.out_order == COLUMN:
        yield Finding(
            "kernel.out_order", 'out_order = "column" with an epilogue', '"row"'
        )
