"""Which inputs a module is tried with, and whether what it makes of them is right.

The same on the CPU and on the GPU.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgen.verify import compare, epilogue, gradients
from kgen.verify.explain import LevelError, NotModelledError
from kgen.verify.floats import FORMATS
from kgen.verify.lower import operands
from kgen.verify.reference import INTEGERS, KINDS, OPERATIONS, Reference
from kgen.verify.request import Case, OperandCase, Request, RequestCase

NOT_COMPARED = (
    "numerics not compared: nothing says what the function computes"
    " (a function `reference` in its file would)"
)


def kinds_of_inputs(cases: Sequence[Case]) -> Iterator[tuple[Case, tuple[str, ...]]]:
    """Yields every case with the kinds of inputs that it is tried with.

    Small integers show every wrong, missing or doubled element bit for bit. Normal
    inputs show rounding in the wrong place, which grows with the reduction: they are
    tried at the longest one, and at the longest of those with gradients.
    """
    plain = [case for case in cases if not _differentiates(case)]
    others = [case for case in cases if _differentiates(case)]
    longest = [max(each, key=_length, default=None) for each in (plain, others)]
    for case in cases:
        is_longest = any(case is each for each in longest)
        yield case, KINDS if is_longest else (INTEGERS,)


def draw(request: Request, case: Case, kind: str) -> tuple[list[Any], Reference]:
    """Returns operands in the dtypes that the function takes, and the reference.

    Raises:
      LevelError: the reference cannot be used.
    """
    try:
        reference = OPERATIONS[request.op].draw(request, case, kind)
    except compare.BadReferenceError as error:
        raise LevelError(str(error)) from error
    # JAX has registered bfloat16 and the like with numpy.
    inputs = [
        values.astype(np.dtype(struct.dtype))
        for values, struct in zip(
            reference.inputs, operands(request, case), strict=True
        )
    ]
    return inputs, reference


def check(
    result: Any, reference: Reference, request: Request, kind: str, *, on_gpu: bool
) -> None:
    """Compares what the function returned with what it should have.

    Args:
      result: One array, as numpy or JAX has it.
      reference: What `draw` returned.
      request: Dtypes.
      kind: Kind of the inputs.
      on_gpu: Whether a GPU multiplied, and not JAX's interpreter.

    Raises:
      LevelError: it is wrong, or the reference cannot serve as a test.
    """
    if reference.gradients:
        _check_gradients(result, reference, request, kind, on_gpu=on_gpu)
        return
    if reference.epilogue is not None:
        _check_epilogue(result, reference, request, kind, on_gpu=on_gpu)
        return
    array = _only_array(result)
    values = array.astype(np.float64)
    if reference.expected is None:
        _check_written(values)
        return
    dtype = request.out_dtype or str(array.dtype)
    if array.shape != reference.expected.shape or array.dtype != dtype:
        raise LevelError(
            f"returns {array.dtype}{list(array.shape)}, expected"
            f" {dtype}{list(reference.expected.shape)}"
        )
    try:
        wrong = _compare(values, reference, request, dtype, kind, on_gpu=on_gpu)
    except compare.BadReferenceError as error:
        raise LevelError(str(error)) from error
    if wrong is not None:
        raise LevelError(wrong)


def _check_gradients(
    results: Any, reference: Reference, request: Request, kind: str, *, on_gpu: bool
) -> None:
    """Compares a result and the gradients of its operands that come after it."""
    result, *found = results
    plain = dataclasses.replace(reference, gradients=())
    check(result, plain, request, kind, on_gpu=on_gpu)
    named = gradients.named_dtypes(request)
    for (name, dtype), array, expected in zip(
        named, found, reference.gradients, strict=True
    ):
        of_operands = dataclasses.replace(request, out_dtype=dtype, epilogue="[]")
        try:
            check(array, expected, of_operands, kind, on_gpu=on_gpu)
        except LevelError as error:
            raise type(error)(f"the gradient of {name}: {error}") from error


def _check_epilogue(
    result: Any, reference: Reference, request: Request, kind: str, *, on_gpu: bool
) -> None:
    """Compares the outputs of a kernel that has an epilogue."""
    import jax

    chain, product = reference.epilogue, reference.expected
    assert chain is not None
    assert product is not None
    accumulated = compare.tolerance(
        product,
        reference.magnitude,
        reduction=reference.reduction,
        operand_dtype=request.operand_dtype,
        out_dtype="float32",
        on_gpu=on_gpu,
        promoted=request.promoted,
    )
    exact = kind == INTEGERS and reference.exact
    error = np.zeros_like(accumulated) if exact else accumulated
    wanted = chain.outputs(product, error, exact=exact)
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(result)]
    dtype = request.out_dtype or str(arrays[0].dtype)
    found = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
    allowed = ", ".join(f"{dtype}{list(each.values.shape)}" for each in wanted)
    if found != allowed:
        raise LevelError(f"returns {found}, expected {allowed}")
    try:
        wrong = epilogue.check(
            [array.astype(np.float64) for array in arrays],
            wanted,
            magnitude=reference.magnitude,
            out_dtype=dtype,
            operand_dtype=request.summed_dtype,
            suspects=lambda: chain.suspects(product),
        )
    except compare.BadReferenceError as error_of_reference:
        raise LevelError(str(error_of_reference)) from error_of_reference
    if wrong is not None:
        raise LevelError(wrong)


def _compare(
    values: NDArray[np.float64],
    reference: Reference,
    request: Request,
    dtype: str,
    kind: str,
    *,
    on_gpu: bool,
) -> str | None:
    assert reference.expected is not None
    if dtype.startswith(("int", "uint", "bool")):
        return compare.equal(values, reference.expected)
    if dtype not in FORMATS:
        raise NotModelledError(
            f"numerics not compared: results of {dtype} are not known"
        )
    if kind == INTEGERS and reference.exact:
        return compare.exact(
            values,
            reference.expected,
            reference.magnitude,
            out_dtype=dtype,
            operand_dtype=request.summed_dtype,
            suspects=reference.suspects,
        )
    if reference.error is not None:
        out = FORMATS[dtype]
        rounding = out.unit_roundoff * (np.abs(reference.expected) + reference.error)
        allowed = reference.error + rounding + out.smallest / 2
        return compare.close(values, reference.expected, allowed, out_dtype=dtype)
    allowed = compare.tolerance(
        reference.expected,
        reference.magnitude,
        reduction=reference.reduction,
        operand_dtype=request.operand_dtype or "float32",
        out_dtype=dtype,
        on_gpu=on_gpu,
        promoted=request.promoted,
    )
    return compare.close(values, reference.expected, allowed, out_dtype=dtype)


def _only_array(result: Any) -> NDArray[Any]:
    import jax

    leaves = jax.tree.leaves(result)
    if len(leaves) != 1:
        raise LevelError(
            f"returns {len(leaves)} arrays; verify a function that returns one of them"
        )
    return np.asarray(leaves[0])


def _check_written(values: NDArray[np.float64]) -> None:
    """Without a reference, memory that was never written can still be seen."""
    if count := int(np.count_nonzero(np.isnan(values))):
        raise LevelError(
            f"{count} of {values.size} elements are NaN, as memory that was never"
            " written"
        )


def _differentiates(case: Case) -> bool:
    return isinstance(case, RequestCase) and case.differentiate


def _length(case: Case) -> int:
    if isinstance(case, OperandCase):
        return sum(int(np.prod(shape)) for _, shape in case.shapes())
    return case.k
