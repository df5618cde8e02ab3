"""How a function that can be differentiated is called, and what that must return."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kgen.epilogue.derivatives import Bounded, pull_back
from kgen.epilogue.steps import FLOAT32, with_argument
from kgen.gradients import COTANGENT, gradients
from kgen.layouts import logical, operand_shapes
from kgen.verify import compare
from kgen.verify.explain import LevelError
from kgen.verify.floats import Array
from kgen.verify.request import Request, RequestCase

if TYPE_CHECKING:
    from kgen.verify.epilogue import Epilogue
    from kgen.verify.reference import Reference


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what computes the result of a function and the gradients of its operands.

    It takes A, B, what an epilogue takes, and the cotangent of the result.
    """

    def differentiated(*operands: Any) -> tuple[Any, ...]:
        import jax

        *operands_of, cotangent = operands
        result, pull_back = jax.vjp(function, *operands_of)
        return result, *pull_back(cotangent)

    return differentiated


def named_dtypes(request: Request) -> tuple[tuple[str, str], ...]:
    """Returns name and dtype of everything that has a gradient, in the order of operands."""
    return (
        *zip("AB", request.operand_dtypes, strict=True),
        *((step.argument, step.dtype) for step in with_argument(request.steps)),
    )


def check_types(
    found: Sequence[Any], request: Request, case: RequestCase, step: str
) -> None:
    """Compares shapes and dtypes of the gradients with those of their operands.

    Raises:
      LevelError: they are others.
    """
    shapes = (
        *operand_shapes(request.layout, case.m, case.n, case.k),
        *(each.shape(case.m, case.n) for each in with_argument(request.steps)),
    )
    wanted = zip(named_dtypes(request), shapes, strict=True)
    for array, ((name, dtype), shape) in zip(found, wanted, strict=True):
        if array.shape != shape or array.dtype != dtype:
            raise LevelError(
                f"at {step}: the gradient of {name} is "
                f"{array.dtype}{list(array.shape)}, expected {dtype}{list(shape)}"
            )


def of_epilogue(
    request: Request,
    reference: "Reference",
    chain: "Epilogue",
    cotangent: Array,
    *,
    exact: bool,
) -> Iterator[Bounded]:
    """Yields the gradients of A, B and an epilogue's arguments, each as it is stored.

    The epilogue is differentiated at the product that the kernel saved, rounded to the
    output's dtype. The cotangent of the product is rounded to the operands' dtype.

    Args:
      request: Layout and dtypes.
      reference: Operands and product.
      chain: The epilogue and its arguments.
      cotangent: That of the output.
      exact: Whether the product is exact in float32.
    """
    assert reference.expected is not None
    error = _of_sum(reference.expected, reference.magnitude, reference.reduction)
    product = Bounded(values=reference.expected, error=error * (not exact))
    if request.out_dtype != FLOAT32:
        product = product.rounded(request.out_dtype)
    of_product, of_arguments = pull_back(
        chain.steps, product, chain.arguments, cotangent
    )
    of_product = of_product.rounded(request.operand_dtype)
    a, b, *_ = reference.inputs
    values = {"a": a, "b": b, COTANGENT: of_product.values}
    errors = {"a": a * 0, "b": b * 0, COTANGENT: of_product.error}
    for gradient in gradients(request.layout):
        first, second = logical(
            gradient.layout, *(values[name] for name in gradient.operands)
        )
        off = logical(gradient.layout, *(errors[name] for name in gradient.operands))
        first_size, second_size = np.abs(first) + off[0], np.abs(second) + off[1]
        expected = first @ second
        error = _of_sum(expected, first_size @ second_size, first.shape[1])
        error += off[0] @ second_size + first_size @ off[1]
        yield Bounded(values=expected, error=error)
    for step in with_argument(request.steps):
        yield of_arguments[step.argument]


def _of_sum(expected: Array, magnitude: Array, reduction: int) -> Array:
    """Returns by how much a sum of products of 16-bit operands may be off in float32."""
    return compare.tolerance(
        expected,
        magnitude,
        reduction=reduction,
        operand_dtype="bfloat16",
        out_dtype=FLOAT32,
    )
