"""Whether a module that picks kernels by the size picks those of its table."""

import contextlib
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from kgen.verify import layout
from kgen.verify.explain import LevelError, explain
from kgen.verify.lower import operands
from kgen.verify.refusals import is_refusal
from kgen.verify.request import Request, RequestCase
from kgen.verify.table import Shape, Table


def check(
    function: Callable[..., Any],
    request: Request,
    path: Path,
    progress: Callable[[str], None],
) -> None:
    """Compares what a module picks with its table; nothing if there is none.

    Raises:
      LevelError: it has another table, picks another kernel, calls another one than it
        picks, or does not refuse what no kernel can do.
    """
    if not request.table:
        return
    table = Table.from_json(request.table)
    module = sys.modules[layout.full_name(request)]
    _check_constants(module, table)
    progress("which kernels it picks")
    unwrapped = inspect.unwrap(function)  # `jit` would remember other calls.
    with _stand_ins(module):
        for size in dict.fromkeys(table.sizes()):
            if nearest := table.nearest(size):
                _check_choice(module, table, size, nearest)
                _check_call(unwrapped, request, module, size)
            else:
                _check_refused(module.choose, size, path)


def _check_constants(module: ModuleType, table: Table) -> None:
    for name in ("KERNELS", "BUCKETS", "choose"):
        if not hasattr(module, name):
            raise LevelError(f"the module has no {name}")
    if table.buckets != module.BUCKETS:
        raise LevelError(f"BUCKETS must be {table.buckets}, found {module.BUCKETS}")
    if module.KERNELS.keys() != table.kernels.keys():
        names = ", ".join(table.kernels)
        raise LevelError(f"KERNELS must be {names}, found {', '.join(module.KERNELS)}")
    for name, wanted in table.kernels.items():
        found = module.KERNELS[name]
        limits = (found.units, getattr(found, "max_m", None))
        if limits != (wanted.units, wanted.max_m):
            raise LevelError(
                f"KERNELS[{name!r}] has the units {limits[0]} and max_m {limits[1]}, but"
                f" {name} has {wanted.units} and {wanted.max_m}"
            )
        owner = str(found.matmul.__module__).rpartition(".")[2]
        if owner != name:
            raise LevelError(f"KERNELS[{name!r}] has the function of {owner}")


def _check_choice(
    module: ModuleType, table: Table, size: Shape, nearest: list[Shape]
) -> None:
    try:
        choice = module.choose(*size)
    except Exception as error:
        raise LevelError(
            f"choose{size} raises {type(error).__name__}: {error}; "
            f"{table.buckets[nearest[0]]} can do it"
        ) from error
    allowed = [(table.buckets[each], each, each == size) for each in nearest]
    found = (choice.kernel, choice.bucket, choice.exact)
    if found not in allowed:
        kernel, bucket, exact = allowed[0]
        raise LevelError(
            f"choose{size} must be the kernel {kernel} of {bucket}, exact={exact}; got"
            f" {choice.kernel} of {choice.bucket}, exact={choice.exact}"
        )


def _check_call(
    function: Callable[..., Any], request: Request, module: ModuleType, size: Shape
) -> None:
    import jax

    m, n, k = size
    wanted = module.choose(*size).kernel

    def called_anew(*of: Any) -> Any:  # What was traced before is remembered.
        return function(*of)

    try:
        jax.eval_shape(called_anew, *operands(request, RequestCase(m=m, n=n, k=k)))
    except _CalledError as error:
        called = str(error)
    except Exception as error:
        called = f"nothing: {type(error).__name__}: {error}"
    else:
        called = "nothing of KERNELS"
    if called != wanted:
        raise LevelError(
            f"at m={m}, n={n}, k={k}: {request.function} must call {wanted}, which"
            f" choose names; it calls {called}"
        )


def _check_refused(choose: Callable[..., Any], size: Shape, path: Path) -> None:
    try:
        choice = choose(*size)
    except Exception as error:
        if is_refusal(error, path):
            return
        raise LevelError(
            f"choose{size} must raise ValueError, since no kernel can do it; it fails:"
            f" {explain(error, path)}"
        ) from error
    raise LevelError(
        f"choose{size} must raise ValueError, since no kernel can do it; got {choice}"
    )


class _CalledError(Exception):
    """A kernel was called; the text is its name."""


@contextlib.contextmanager
def _stand_ins(module: ModuleType) -> Iterator[None]:
    """Has every kernel say that it was called, instead of doing anything."""
    kernels: dict[str, Any] = dict(module.KERNELS)
    for name, kernel in kernels.items():
        stand_in = functools.partial(_say, name)
        module.KERNELS[name] = dataclasses.replace(kernel, matmul=stand_in)
    try:
        yield
    finally:
        module.KERNELS.update(kernels)


def _say(name: str, *_: object, **__: object) -> None:
    raise _CalledError(name)
