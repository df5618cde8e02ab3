"""Level `simulate`: the module runs in JAX's GPU interpreter, and its numbers are right.

The interpreter runs every CTA on the CPU with the GPU's memory spaces and barriers,
watches for data races and fills memory with NaN before it is written. What it lacks is
that a wgmma is asynchronous; `kgen.verify.simulate.wgmma` adds that.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kgen.verify import compare, upstream
from kgen.verify.explain import LevelError, describe_line, explain
from kgen.verify.floats import Array
from kgen.verify.lower import operands
from kgen.verify.reference import INTEGERS, KINDS, OPERATIONS, Reference
from kgen.verify.request import Request, RequestCase
from kgen.verify.simulate import wgmma
from kgen.verify.simulate.races import describe_races


def run(
    function: Callable[..., Any],
    request: Request,
    module: Path,
    progress: Callable[[str], None],
) -> None:
    """Runs `function` at every case that asks for it.

    Small integers show every wrong, missing or doubled element bit for bit. Normal
    inputs show rounding in the wrong place, which grows with the reduction: they are
    tried at the longest one.

    Args:
      function: The module's public function; takes `interpret`.
      request: Sizes and dtypes.
      module: The module's file.
      progress: Told what is being tried.

    Raises:
      LevelError: a result is wrong, there is a race, or nothing could be simulated.
    """
    try:
        wgmma.install()
        interpreter = upstream.Interpreter(wgmma.POSITIONS)
        cases = [case for case in request.cases if case.simulate]
        longest = max(cases, key=lambda case: case.k, default=None)
        for case in cases:
            progress(str(case))
            try:
                kernel = _compile(function, request, case, interpreter)
            except Exception as error:
                raise LevelError(f"at {case}: {_explain(error, module)}") from error
            for kind in KINDS if case is longest else (INTEGERS,):
                step = f"{case} on {kind}"
                progress(step)
                reference = OPERATIONS[request.op].draw(request, case, kind)
                try:
                    result = _execute(kernel, reference, request, interpreter, module)
                    wrong = _compare(result, reference, request, kind)
                except (LevelError, compare.BadReferenceError) as error:
                    raise LevelError(f"at {step}: {error}") from error
                if wrong is not None:
                    raise LevelError(f"at {step}: {wrong}")
    except upstream.UnavailableError as error:
        version = upstream.jax_version()
        raise LevelError(f"not simulated on jax {version}: {error}") from error


def _compile(
    function: Callable[..., Any],
    request: Request,
    case: RequestCase,
    interpreter: upstream.Interpreter,
) -> Callable[..., Any]:
    """Compiles the interpreted kernel, once for every kind of input."""
    import jax

    interpret = functools.partial(function, interpret=interpreter.params)
    lowered = jax.jit(interpret).lower(*operands(request, case))
    compiled: Callable[..., Any] = lowered.compile()
    return compiled


def _execute(
    kernel: Callable[..., Any],
    reference: Reference,
    request: Request,
    interpreter: upstream.Interpreter,
    module: Path,
) -> Array:
    """Runs the kernel once and returns its result; races and errors are raised."""
    # JAX has registered bfloat16 with numpy.
    dtype = np.dtype(request.operand_dtype)
    inputs = [values.astype(dtype) for values in reference.inputs]
    interpreter.reset()
    log = upstream.InterpreterLog()
    try:
        with log.collect():
            result = np.asarray(kernel(*inputs))
    except Exception as error:
        raise LevelError(_explain(log.error or error, module)) from error
    if interpreter.races_found() or log.races:
        raise LevelError(describe_races(log.races, module))
    if result.shape != reference.expected.shape or result.dtype != request.out_dtype:
        raise LevelError(
            f"returns {result.dtype}{list(result.shape)}, expected"
            f" {request.out_dtype}{list(reference.expected.shape)}"
        )
    return result.astype(np.float64)


def _explain(error: BaseException, module: Path) -> str:
    """Explains an error, with the line whose operation was being interpreted."""
    text = explain(error, module)
    if str(module.name) + ":" in text:
        return text
    trace = error.__traceback__
    while trace is not None:
        source_info = trace.tb_frame.f_locals.get("source_info")
        line = source_info and upstream.source_line(source_info, module)
        if line:
            return f"{text}; at {describe_line(module, line)}"
        trace = trace.tb_next
    return text


def _compare(
    result: Array, reference: Reference, request: Request, kind: str
) -> str | None:
    """Says what is wrong with the result, if anything."""
    if kind == INTEGERS:
        return compare.exact(
            result,
            reference.expected,
            reference.magnitude,
            out_dtype=request.out_dtype,
            suspects=reference.suspects,
        )
    allowed = compare.tolerance(
        reference.expected,
        reference.magnitude,
        reduction=reference.reduction,
        operand_dtype=request.operand_dtype,
        out_dtype=request.out_dtype,
    )
    return compare.close(
        result, reference.expected, allowed, out_dtype=request.out_dtype
    )
