"""Level `lower`: Mosaic GPU's front end accepts the module, at every size.

Runs on a CPU. What ptxas would say is not part of it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgen.verify import upstream
from kgen.verify.explain import LevelError, explain
from kgen.verify.reference import OPERATIONS
from kgen.verify.request import Request, RequestCase

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
        raise LevelError(
            f"not lowered: {request.arch} is not one of {', '.join(ARCHS)}"
        )
    try:
        upstream.check_version()
    except upstream.UnavailableError as error:
        version = upstream.jax_version()
        raise LevelError(f"not lowered on jax {version}: {error}") from error
    for index, case in enumerate(request.cases):
        for x64 in (False, True) if index == 0 else (False,):
            step = f"{case}, x64 mode" if x64 else str(case)
            progress(step)
            try:
                lowered = _lower(function, request, case, x64=x64)
            except Exception as error:
                raise LevelError(f"at {step}: {explain(error, module)}") from error
            _check(lowered, request, case, step)


def operands(request: Request, case: RequestCase) -> list[Any]:
    """Returns the operands' shapes and dtypes, as `jax.jit` takes them."""
    import jax

    struct: Any = jax.ShapeDtypeStruct
    shapes = OPERATIONS[request.op].shapes(request, case)
    return [struct(shape, request.operand_dtype) for shape in shapes]


def _lower(
    function: Callable[..., Any], request: Request, case: RequestCase, *, x64: bool
) -> Any:
    import jax

    with jax.enable_x64(x64):
        traced = jax.jit(function).trace(*operands(request, case))
        return traced.lower(lowering_platforms=("cuda",))


def _check(lowered: Any, request: Request, case: RequestCase, step: str) -> None:
    """Compares result and SMEM with what the request says."""
    import jax

    results = jax.tree.leaves(lowered.out_info)
    found = ", ".join(f"{r.dtype}{list(r.shape)}" for r in results)
    expected = f"{request.out_dtype}{list(OPERATIONS[request.op].result(case))}"
    if found != expected:
        raise LevelError(f"at {step}: returns {found}, expected {expected}")
    try:
        smem_bytes = upstream.kernel_smem_bytes(lowered)
    except ValueError as error:
        raise LevelError(f"at {step}: {error}") from error
    except upstream.UnavailableError as error:
        version = upstream.jax_version()
        raise LevelError(
            f"at {step}: SMEM size not read on jax {version}: {error}"
        ) from error
    if case.smem_bytes is not None and smem_bytes != case.smem_bytes:
        raise LevelError(
            f"at {step}: the lowered kernel asks for {smem_bytes:,} bytes of SMEM,"
            f" the plan says {case.smem_bytes:,}"
        )
