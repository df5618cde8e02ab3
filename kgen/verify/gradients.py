"""How a function that can be differentiated is called, and what that must return."""

from collections.abc import Callable, Sequence
from typing import Any

from kgen.layouts import operand_shapes
from kgen.verify.explain import LevelError
from kgen.verify.request import Request, RequestCase


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what computes the result of a function and the gradients of A and B.

    It takes A, B and the cotangent of the result.
    """

    def differentiated(a: Any, b: Any, cotangent: Any) -> tuple[Any, Any, Any]:
        import jax

        result, pull_back = jax.vjp(function, a, b)
        of_a, of_b = pull_back(cotangent)
        return result, of_a, of_b

    return differentiated


def check_types(
    found: Sequence[Any], request: Request, case: RequestCase, step: str
) -> None:
    """Compares shapes and dtypes of the gradients with those of their operands.

    Raises:
      LevelError: they are others.
    """
    shapes = operand_shapes(request.layout, case.m, case.n, case.k)
    wanted = zip(shapes, request.operand_dtypes, strict=True)
    for name, array, (shape, dtype) in zip("AB", found, wanted, strict=True):
        if array.shape != shape or array.dtype != dtype:
            raise LevelError(
                f"at {step}: the gradient of {name} is "
                f"{array.dtype}{list(array.shape)}, expected {dtype}{list(shape)}"
            )
