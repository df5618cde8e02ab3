"""What each operation computes, in float64, and what it is tested with.

Inputs are drawn from a generator that is seeded from the sizes, so that a verdict does
not change from run to run.
"""

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kgen import float8, operations
from kgen.epilogue import numerics
from kgen.gradients import COTANGENT
from kgen.gradients import gradients as gradients_of
from kgen.layouts import logical, operand_shapes, stored
from kgen.verify import epilogue as epilogues
from kgen.verify import glu, gradients, scales
from kgen.verify.compare import BadReferenceError
from kgen.verify.floats import FORMATS, Array
from kgen.verify.request import (
    FUNCTION,
    GLU,
    MATMUL,
    OperandCase,
    Request,
    RequestCase,
)

INTEGERS, NORMAL = "small integers", "normal values"
KINDS = (INTEGERS, NORMAL)
LARGEST_INTEGER = 3
INTEGERS_SPREAD = 4.0
"""Standard deviation of a product of two of them."""
POWERS = (2.0, 4.0, 8.0, 16.0)
SMALL_SHARE = 2.0**-6
"""Share of a result's typical size below which rounding errors need not shrink."""
DROPPED_STEPS = (8, 16, 32, 64, 128, 256)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """Inputs and what the operation makes of them.

    Attributes:
      inputs: Operands as the module takes them; every value fits the operand dtype.
      expected: The exact result, float64; None if nobody knows it.
      magnitude: The result of the operands' absolute values.
      reduction: Number of products per element of the result.
      exact: Whether small integers must give the expected values bit for bit.
      suspects: Makes the results of well-known faults, by name.
      epilogue: What makes the results of what is expected; None if that is the result.
      gradients: Those of A and B, if the case differentiates, and then those of what an
        epilogue takes.
      error: By how much a right result may be off before it is rounded; None if that
        follows from the reduction.
    """

    inputs: tuple[Array, ...]
    expected: Array | None
    magnitude: Array
    reduction: int
    exact: bool = True
    suspects: Callable[[], Iterator[tuple[str, Array]]] = lambda: iter(())
    epilogue: epilogues.Epilogue | glu.Gate | None = None
    gradients: tuple["Reference", ...] = ()
    error: Array | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation.

    Attributes:
      draw: Returns inputs of a kind, and the reference.
    """

    draw: Callable[[Request, Any, str], Reference]


def draw_values(
    rng: np.random.Generator,
    kind: str,
    dtype: str,
    shape: tuple[int, ...],
    reduction: int = 1,
) -> Array:
    """Draws operands that `dtype` holds exactly.

    `INTEGERS` are uniform in [-3, 3], so that sums are exact in float32 up to a length
    of 2^24 / 9; `NORMAL` are independent standard normal values. 8-bit floats are -1, 0
    and 1, and so few of them other than 0 that sums of `reduction` products are exact
    in a GPU's tensor cores.
    """
    if kind == INTEGERS and dtype in float8.FLOAT8:
        share = float8.share_of_ones(reduction)
        signs = rng.choice([-1.0, 0.0, 1.0], shape, p=[share / 2, 1 - share, share / 2])
        return np.asarray(signs, np.float64)
    if kind == INTEGERS or dtype.startswith(("int", "uint", "bool")):
        low, high = -LARGEST_INTEGER, LARGEST_INTEGER + 1
        if dtype.startswith(("uint", "bool")):
            low, high = 0, 2 if dtype == "bool" else high
        return rng.integers(low, high, shape).astype(np.float64)
    values = rng.standard_normal(shape)
    if dtype in FORMATS:
        return FORMATS[dtype].round(values)
    # JAX has registered the narrower formats with numpy.
    return values.astype(np.dtype(dtype)).astype(np.float64)


def matmul_shapes(
    request: Request, case: RequestCase
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the shapes of A and B."""
    a, b = operand_shapes(request.layout, case.m, case.n, case.k)
    return (*case.a_batch, *a), (*case.b_batch, *b)


def _draw_matmul(request: Request, case: RequestCase, kind: str) -> Reference:
    rng = np.random.default_rng([case.m, case.n, case.k, KINDS.index(kind)])
    a, b = (
        draw_values(rng, kind, dtype, shape, request.promoted or case.k)
        for dtype, shape in zip(
            request.operand_dtypes, matmul_shapes(request, case), strict=True
        )
    )
    spread = INTEGERS_SPREAD if kind == INTEGERS else 1.0
    if request.operand_dtype not in float8.FLOAT8:  # Whose smallest are not so small.
        a = a * numerics.shrink(request.steps, spread * math.sqrt(max(case.k, 1)))
    of_blocks = scales.draw(request, case, rng, integers=kind == INTEGERS)
    chain = epilogues.draw(request, case, rng, integers=kind == INTEGERS)
    inputs = (a, b, *of_blocks, *chain.arguments.values())
    a, b = scales.apply(request, a, b, of_blocks)
    a, b = logical(request.layout, a, b)

    def as_stored(product: Array) -> Array:
        result: Array = stored(request.out_order, product)
        return result

    def suspects() -> Iterator[tuple[str, Array]]:
        if case.m == case.n:
            yield "the transposed product", as_stored((a @ b).mT)
        for name, of in (("A", case.a_batch), ("B", case.b_batch)):
            if math.prod(of) > 1:
                zero = (0,) * len(of)
                yield (
                    f"that of the first matrix of {name} throughout",
                    as_stored(a[zero] @ b if name == "A" else a @ b[zero]),
                )
        for size in DROPPED_STEPS:
            if size < case.k:
                last, first = slice(-size), slice(size, None)
                yield (
                    f"the product without the last {size} of k",
                    as_stored(a[..., last] @ b[..., last, :]),
                )
                yield (
                    f"the product without the first {size} of k",
                    as_stored(a[..., first] @ b[..., first, :]),
                )

    reference = Reference(
        inputs=inputs,
        expected=as_stored(a @ b),
        magnitude=as_stored(np.abs(a) @ np.abs(b)),
        reduction=case.k,
        suspects=suspects,
        epilogue=chain if chain.steps else None,
    )
    if not case.differentiate:
        return reference
    cotangent = draw_values(rng, kind, request.out_dtype, (case.m, case.n))
    if chain.steps:
        found = gradients.of_epilogue(
            request, reference, chain, cotangent, exact=kind == INTEGERS
        )
        return dataclasses.replace(
            reference,
            inputs=(*inputs, cotangent),
            gradients=tuple(
                Reference(
                    inputs=(),
                    expected=each.values,
                    magnitude=np.abs(each.values),
                    reduction=1,
                    exact=False,
                    error=each.error,
                )
                for each in found
            ),
        )
    return _with_gradients(request, reference, cotangent)


def _with_gradients(
    request: Request, reference: Reference, cotangent: Array
) -> Reference:
    """Returns a reference with the gradients of A and B, each as it is stored."""
    of = dict(zip("ab", reference.inputs, strict=True))
    of[COTANGENT] = FORMATS[request.operand_dtype].round(cotangent)
    found = []
    for gradient in gradients_of(request.layout):
        first, second = logical(
            gradient.layout, *(of[name] for name in gradient.operands)
        )
        found.append(
            Reference(
                inputs=(),
                expected=first @ second,
                magnitude=np.abs(first) @ np.abs(second),
                reduction=first.shape[1],
            )
        )
    return dataclasses.replace(
        reference, inputs=(*reference.inputs, cotangent), gradients=tuple(found)
    )


def _draw_glu(request: Request, case: RequestCase, kind: str) -> Reference:
    rng = np.random.default_rng([case.m, case.n, case.k, KINDS.index(kind)])
    dtype, (of_x, of_weight) = request.operand_dtype, matmul_shapes(request, case)
    x, w_gate, w_up = (
        draw_values(rng, kind, dtype, shape, case.k)
        for shape in (of_x, of_weight, of_weight)
    )
    # Where the activation is flat, or the line x, much would not show.
    spread = INTEGERS_SPREAD if kind == INTEGERS else 1.0
    x = x * 2.0 ** -round(math.log2(spread * math.sqrt(max(case.k, 1))))
    inputs = (x, w_gate, w_up)
    if request.layout == "nt":
        w_gate, w_up = w_gate.T, w_up.T
    gate = glu.make(request, x, w_gate, w_up)
    return Reference(
        inputs=inputs,
        expected=x @ w_gate,
        magnitude=gate.gate_magnitude,
        reduction=case.k,
        epilogue=gate,
    )


def _draw_function(request: Request, case: OperandCase, kind: str) -> Reference:
    shapes = case.shapes()
    sizes = [size for _, shape in shapes for size in shape]
    rng = np.random.default_rng([*sizes, KINDS.index(kind)])
    reduction = max(sizes, default=1)
    inputs = tuple(
        draw_values(rng, kind, dtype, shape, reduction) for dtype, shape in shapes
    )
    if not request.reference:
        nothing = np.zeros(())
        return Reference(
            inputs=inputs, expected=None, magnitude=nothing, reduction=reduction
        )
    dtypes = tuple(dtype for dtype, _ in shapes)
    evaluate = _evaluate_operation if request.operation else _evaluate
    expected = evaluate(request, inputs, dtypes)
    magnitude = _magnitude(lambda *of: evaluate(request, of, dtypes), inputs, expected)
    if request.operation:
        reduction = _operation(request).reduction(tuple(shape for _, shape in shapes))
    return Reference(
        inputs=inputs,
        expected=expected,
        magnitude=magnitude,
        reduction=reduction,
        exact=bool((expected == np.round(expected)).all()),
    )


def _magnitude(
    function: Callable[..., Array], inputs: tuple[Array, ...], expected: Array
) -> Array:
    """Returns the size of what is summed up in each element of the result.

    A sum of products grows by one power of two when its operands double, and then the
    operands' absolute values tell it. Of any other function nothing is known but the
    result; what is small in it came from something of the others' size.
    """
    doubled = function(*(2 * each for each in inputs))
    known = expected != 0
    ratios = {float(ratio) for ratio in doubled[known] / expected[known]}
    if len(ratios) == 1 and ratios.pop() in POWERS:
        absolute = function(*(np.abs(each) for each in inputs))
        return np.maximum(np.abs(expected), np.abs(absolute))
    typical = math.sqrt(np.mean(np.square(expected))) if expected.size else 0.0
    magnitude: Array = np.maximum(np.abs(expected), SMALL_SHARE * typical)
    return magnitude


def _evaluate(
    request: Request, inputs: tuple[Array, ...], dtypes: tuple[str, ...]
) -> Array:
    """Returns what the module's reference makes of `inputs`.

    It is given float64, so that its own rounding counts for nothing. One that insists
    on a dtype gets the operands' own, and the highest precision of their products.

    Raises:
      BadReferenceError: it fails.
    """
    import jax

    # The worker has imported the module.
    function = getattr(sys.modules[request.name], request.reference)
    integers = [dtype.startswith(("int", "uint", "bool")) for dtype in dtypes]
    widest = ["int64" if integer else "float64" for integer in integers]
    failures = []
    for x64, wanted in ((True, widest), (False, dtypes)):
        operands = [
            values.astype(np.dtype(dtype))
            for values, dtype in zip(inputs, wanted, strict=True)
        ]
        try:
            with jax.enable_x64(x64), jax.default_matmul_precision("highest"):
                return np.asarray(function(*operands)).astype(np.float64)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
    reason = failures[-1].strip().splitlines()[0]
    raise BadReferenceError(f"{request.reference} fails: {reason}")


def _evaluate_operation(
    request: Request, inputs: tuple[Array, ...], _: tuple[str, ...]
) -> Array:
    """Returns what the reference of a plug-in's operation makes of `inputs`.

    Raises:
      BadReferenceError: it is missing or fails.
    """
    function = _operation(request).reference
    if function is None:
        raise BadReferenceError(f"the operation {request.operation} has no reference")
    try:
        result = function(*inputs, **json.loads(request.parameters))
        return np.asarray(result).astype(np.float64)
    except Exception as error:
        raise BadReferenceError(
            f"the reference of the operation {request.operation} fails: "
            f"{type(error).__name__}: {error}"
        ) from error


def _operation(request: Request) -> operations.Operation:
    """Returns a plug-in's operation, which this process finds by itself.

    Raises:
      BadReferenceError: it is not there, or broken.
    """
    try:
        return operations.get(request.operation)
    except KeyError:
        raise BadReferenceError(
            f"no package brings the operation {request.operation} to the worker"
        ) from None
    except operations.PluginError as error:
        raise BadReferenceError(str(error)) from error


OPERATIONS = {
    MATMUL: Operation(draw=_draw_matmul),
    GLU: Operation(draw=_draw_glu),
    FUNCTION: Operation(draw=_draw_function),
}
