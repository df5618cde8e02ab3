"""Level `lower`: Mosaic GPU's front end accepts the module, at every size.

Runs on a CPU. What ptxas would say is not part of it.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgen.epilogue.steps import saves, with_argument
from kgen.layouts import out_shape
from kgen.verify import gradients, scales, upstream
from kgen.verify.explain import LevelError, NotModelledError, explain_refusal
from kgen.verify.reference import matmul_shapes
from kgen.verify.request import GLU, OUT_DTYPES, Case, OperandCase, Request, RequestCase

ARCHS = ("sm_90a",)
"""What JAX lowers for where there is no GPU."""


def run(
    function: Callable[..., Any],
    request: Request,
    module: Path,
    progress: Callable[[str], None],
) -> None:
    """Lowers `function` for CUDA at every case; at the first with x64 mode, too.

    Args:
      function: The module's public function.
      request: Sizes, dtypes and the SMEM that each size must ask for.
      module: The module's file.
      progress: Told what is being tried.

    Raises:
      LevelError: a size is refused, or its SMEM, shape or dtype is not as planned.
    """
    if request.arch not in ARCHS:
        raise NotModelledError(
            f"not lowered: {request.arch} is not one of {', '.join(ARCHS)}"
        )
    try:
        upstream.check_version()
    except upstream.UnavailableError as error:
        version = upstream.jax_version()
        raise NotModelledError(f"not lowered on jax {version}: {error}") from error
    for index, case in enumerate(request.cases):
        for x64 in (False, True) if index == 0 else (False,):
            step = f"{case}, x64 mode" if x64 else str(case)
            progress(step)
            try:
                lowered = _lower(function, request, case, x64=x64)
            except Exception as error:
                text = explain_refusal(error, module, request.allow)
                raise LevelError(f"at {step}: {text}") from error
            _check(lowered, request, case, step)


def operands(request: Request, case: Case) -> list[Any]:
    """Returns the operands' shapes and dtypes, as `jax.jit` takes them."""
    import jax

    struct: Any = jax.ShapeDtypeStruct
    if isinstance(case, OperandCase):
        return [struct(shape, dtype) for dtype, shape in case.shapes()]
    shapes = matmul_shapes(request, case)
    if request.op == GLU:  # x, and a weight twice.
        return [struct(shape, request.operand_dtype) for shape in (*shapes, shapes[1])]
    arguments = [
        struct(step.shape(case.m, case.n, case.b_batch), step.dtype)
        for step in with_argument(request.steps)
    ]
    of_blocks = [struct(shape, "float32") for shape in scales.shapes(request, case)]
    cotangent = (
        [struct(out_shape(request.out_order, case.m, case.n), request.out_dtype)]
        if case.differentiate
        else []
    )
    return [
        *map(struct, shapes, request.operand_dtypes),
        *of_blocks,
        *arguments,
        *cotangent,
    ]


def called(function: Callable[..., Any], case: Case) -> Callable[..., Any]:
    """Returns `function` with the keywords that the case calls it with.

    If the case differentiates, it takes the cotangent last, and returns the gradients
    of A and B after the result.
    """
    if isinstance(case, OperandCase):
        return function
    if case.num_sms is not None:
        function = functools.partial(function, num_sms=case.num_sms)
    return gradients.with_gradients(function) if case.differentiate else function


def _lower(
    function: Callable[..., Any], request: Request, case: Case, *, x64: bool
) -> Any:
    import jax

    with jax.enable_x64(x64):
        traced = jax.jit(called(function, case)).trace(*operands(request, case))
        return traced.lower(lowering_platforms=("cuda",))


def _check(lowered: Any, request: Request, case: Case, step: str) -> None:
    """Compares result and SMEM with what the request says."""
    if isinstance(case, RequestCase):
        _check_result(lowered, request, case, step)
    try:
        kernels = upstream.kernels_smem_bytes(lowered)
    except upstream.UnavailableError as error:
        version = upstream.jax_version()
        raise NotModelledError(
            f"at {step}: SMEM size not read on jax {version}: {error}"
        ) from error
    if not isinstance(case, RequestCase):
        _check_count(len(kernels), None, step)
        return
    if case.is_empty:
        _check_count(len(kernels), 0, step)
        return
    planned = [case.smem_bytes]
    if case.differentiate:
        planned += [case.grad_a_smem_bytes, case.grad_b_smem_bytes]
    known = sorted(size for size in planned if size is not None)
    is_known = len(known) == len(planned)
    _check_count(len(kernels), case.kernels if is_known else None, step)
    if is_known and sorted(kernels) != known:
        raise LevelError(
            f"at {step}: {_asks(sorted(kernels))} bytes of SMEM, the plan says "
            f"{_numbers(known)}"
        )


def _check_count(found: int, expected: int | None, step: str) -> None:
    least = 1 if expected is None else expected
    if found < least or expected not in (None, found):
        wanted = {0: "no Mosaic GPU kernel", 3: "three Mosaic GPU kernels"}.get(
            least, "one Mosaic GPU kernel"
        )
        raise LevelError(f"at {step}: expected {wanted}, found {found}")


def _asks(sizes: list[int]) -> str:
    kernels = "kernel asks" if len(sizes) == 1 else "kernels ask"
    return f"the lowered {kernels} for {_numbers(sizes)}"


def _numbers(sizes: list[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)


def _check_result(lowered: Any, request: Request, case: RequestCase, step: str) -> None:
    import jax

    results = jax.tree.leaves(lowered.out_info)
    shapes = [list(result.shape) for result in results]
    found = ", ".join(f"{r.dtype}{list(r.shape)}" for r in results)
    expected = [*case.batch, *out_shape(request.out_order, case.m, case.n)]
    dtypes = [request.out_dtype] if request.out_dtype else OUT_DTYPES
    outputs = 1 + saves(request.steps)
    if case.differentiate:
        gradients.check_types(results[outputs:], request, case, step)
        results, shapes = results[:outputs], shapes[:outputs]
    allowed = all(result.dtype in dtypes for result in results)
    if shapes != [expected] * outputs or not allowed:
        wanted = " or ".join(f"{dtype}{expected}" for dtype in dtypes)
        wanted += f", {outputs} times" if outputs > 1 else ""
        raise LevelError(f"at {step}: returns {found or 'nothing'}, expected {wanted}")
