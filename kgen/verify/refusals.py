"""Operands that a function must refuse, and whether it does so.

Nothing is compiled: each call is traced up to the `ValueError` that the function's
docstring promises. It must come from the module itself. What JAX says of a kernel that
should never have been built is no refusal.
"""

import dataclasses
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgen.verify.explain import LevelError, explain
from kgen.verify.gradients import with_gradients
from kgen.verify.lower import operands
from kgen.verify.request import GLU, Request, RequestCase

SIBLINGS = {
    "float16": "bfloat16",
    "bfloat16": "float16",
    "float32": "bfloat16",
    "float8_e4m3fn": "float8_e5m2",
    "float8_e5m2": "float8_e4m3fn",
}
"""For each dtype one that a check which is too wide would take, too."""
SOME_SIZE = (8, 16, 24)
"""A size of a function that takes every size."""
MOST_SHOWN = 5
NUM_SMS = "num_sms"
"""What tells a persistent kernel of the SMs."""
NOT_PROMISED = "bad operands not tried: {}'s docstring promises no ValueError"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """A call that must be refused.

    Attributes:
      what: What is wrong with it, in words.
      operands: Shapes and dtypes.
      keywords: Other arguments.
      differentiated: Whether it is the gradients that must be refused.
    """

    what: str
    operands: Sequence[Any]
    keywords: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    differentiated: bool = False


def check(
    function: Callable[..., Any], request: Request, module: Path
) -> tuple[str, ...]:
    """Calls `function` with what it must refuse; nothing if that is not known.

    Returns:
      A note if the function promises no refusal.

    Raises:
      LevelError: it takes such operands, or fails otherwise.
    """
    if not request.units:
        return ()
    if "ValueError" not in (function.__doc__ or ""):
        return (NOT_PROMISED.format(request.function),)
    found = [
        text
        for call in calls(function, request)
        if (text := _told(function, call, module))
    ]
    if found:
        more = len(found) - MOST_SHOWN
        shown = [*found[:MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        raise LevelError(
            f"{request.function} must refuse with a ValueError, before it builds a"
            " kernel:\n" + "\n".join(f"  {text}" for text in shown)
        )
    return ()


def small_case(request: Request) -> RequestCase:
    """Returns the smallest size that a function takes, or a small one."""
    m, n, k = SOME_SIZE if request.any_edge else request.units
    return RequestCase(m=m, n=n, k=k)


def is_refusal(error: BaseException, module: Path) -> bool:
    """Whether an error is a `ValueError` that the module raises, or one beside it.

    One that Python raises there, such as of a shape that cannot be unpacked, is none.
    """
    innermost = traceback.extract_tb(error.__traceback__, limit=-1)
    return isinstance(error, ValueError) and any(
        (frame.line or "").startswith("raise ")
        and Path(frame.filename).parent == module.parent
        for frame in innermost
    )


def calls(function: Callable[..., Any], request: Request) -> Iterator[Call]:
    """Yields the calls that must be refused."""
    parameters = inspect.signature(function).parameters
    right = operands(request, small_case(request))
    names = [*parameters][: len(right)]
    for index, (name, operand) in enumerate(zip(names, right, strict=True)):
        for what, other in (*_dtypes(operand), *_ranks(operand, request)):
            yield _replaced(right, index, f"{name} is {what}", other)
    yield from _disagreeing(request, right, names)
    yield from _misshapen(request, right, names)
    if not request.table:
        yield from _no_multiples(request)
    if request.batched:
        a, b, *others = right
        of_a, of_b = (
            _struct((lead, *x.shape), x.dtype) for lead, x in ((2, a), (3, b))
        )
        what = "the leading dimensions of a and b are 2 and 3"
        yield Call(what=what, operands=[of_a, of_b, *others])
    if NUM_SMS in parameters:
        yield Call(what=f"{NUM_SMS} is 0", operands=right, keywords={NUM_SMS: 0})
    yield from _not_differentiable(request)


def _told(function: Callable[..., Any], call: Call, module: Path) -> str:
    """Returns what is wrong with how a call ends; nothing if it is refused."""
    import jax

    def called(*of: Any) -> Any:
        return function(*of, **call.keywords)

    try:
        jax.eval_shape(
            with_gradients(called) if call.differentiated else called, *call.operands
        )
    except Exception as error:
        if is_refusal(error, module):
            return ""
        return f"{call.what}: it fails later with {explain(error, module)}"
    return f"{call.what}: it takes that"


def _dtypes(operand: Any) -> Iterator[tuple[str, Any]]:
    if not operand.shape:
        return  # A scalar may be any number: it is converted.
    for dtype in (SIBLINGS[str(operand.dtype)], "int32"):
        yield f"of {dtype}", _struct(operand.shape, dtype)


def _ranks(operand: Any, request: Request) -> Iterator[tuple[str, Any]]:
    shapes = [operand.shape[1:]] if operand.shape else []
    if not request.batched:
        shapes.append((1, *operand.shape))
    for shape in shapes:
        yield f"of shape {[*shape]}", _struct(shape, operand.dtype)


def _disagreeing(
    request: Request, right: Sequence[Any], names: Sequence[str]
) -> Iterator[Call]:
    """Yields factors of which one has another k, or of two weights another n."""
    case = small_case(request)
    deeper = operands(request, dataclasses.replace(case, k=2 * case.k))
    wider = operands(request, dataclasses.replace(case, n=2 * case.n))
    for index, name in enumerate(names[: _factors(request)]):
        yield _replaced(right, index, f"{name} alone has twice the k", deeper[index])
        if request.op == GLU and index > 0:
            yield _replaced(right, index, f"{name} alone has twice the n", wider[index])


def _misshapen(
    request: Request, right: Sequence[Any], names: Sequence[str]
) -> Iterator[Call]:
    """Yields other arguments that are off by one, or would broadcast."""
    for index in range(_factors(request), len(right)):
        shape, dtype = right[index].shape, right[index].dtype
        for axis, size in enumerate(shape):
            for other in {size + 1, 1} - {size}:
                changed = (*shape[:axis], other, *shape[axis + 1 :])
                what = f"{names[index]} is of shape {[*changed]}, not {[*shape]}"
                yield _replaced(right, index, what, _struct(changed, dtype))


def _no_multiples(request: Request) -> Iterator[Call]:
    """Yields sizes that are no multiples of a block, zero among them."""
    case = small_case(request)
    for axis, unit in zip("mnk", request.units, strict=True):
        if unit > 1:
            for size in (0, unit + 1, unit + unit // 2):
                changed = _resized(case, axis, size)
                what = f"{axis} is {size}, no positive multiple of {unit}"
                yield Call(what=what, operands=operands(request, changed))


def _not_differentiable(request: Request) -> Iterator[Call]:
    """Yields sizes of which there is a product, but no gradients."""
    if not request.grad_units:
        return
    m, n, k = request.grad_units
    case = RequestCase(m=m, n=n, k=k, differentiate=True)
    pairs = zip("mnk", request.units, request.grad_units, strict=True)
    for axis, unit, needed in pairs:
        if unit % needed:
            changed = _resized(case, axis, unit)
            what = f"{axis} is {unit}, no multiple of {needed}, to differentiate"
            yield Call(
                what=what, operands=operands(request, changed), differentiated=True
            )


def _resized(case: RequestCase, axis: str, size: int) -> RequestCase:
    sizes: dict[str, Any] = {axis: size}
    return dataclasses.replace(case, **sizes)


def _factors(request: Request) -> int:
    """Returns how many operands are multiplied; they come first."""
    return 3 if request.op == GLU else 2


def _replaced(right: Sequence[Any], index: int, what: str, other: Any) -> Call:
    return Call(what=what, operands=[*right[:index], other, *right[index + 1 :]])


def _struct(shape: tuple[int, ...], dtype: Any) -> Any:
    import jax

    struct: Any = jax.ShapeDtypeStruct
    return struct(shape, dtype)
