"""Every piece of JAX that is not public and that the verifier needs.

JAX's GPU interpreter tells neither its races nor its state through public names, and a
lowered kernel's SMEM is only written in the serialised module. All of that is read
here, for the versions in `SUPPORTED`; elsewhere and where a piece has moved,
`UnavailableError` says so. Nothing is assumed to be fine.
"""

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgen.arch import Arch

SUPPORTED = ((0, 11, 2), (0, 13))
"""First version that the pieces below are known for, and first that they are not."""

INTERPRETER = "jax._src.pallas.mosaic_gpu.interpret.interpret_pallas_call"
CALLBACK_LOGGER = "jax._src.callback"
RACE = "RACE DETECTED"

_CUSTOM_CALL = "mosaic_gpu_v2"
_MODULE = "module"  # The serialised module in the custom call's configuration.
_LAUNCH = "gpu.launch"
# Operands of gpu.launch: the 11th group is dynamicSharedMemorySize.
_SMEM_GROUP = 10


class UnavailableError(Exception):
    """This JAX lacks a piece that the verifier needs; the text says which."""


def jax_version() -> str:
    """Returns the version of the imported JAX."""
    import jax

    return str(jax.__version__)


def check_version() -> None:
    """Raises `UnavailableError` if this JAX is not one of `SUPPORTED`."""
    version = jax_version()
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:3])
    first, beyond = SUPPORTED
    if not first <= numbers < beyond:
        raise UnavailableError(
            f"kgen knows jax >= {_dotted(first)} and < {_dotted(beyond)}"
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


class Interpreter:
    """JAX's GPU interpreter with race detection and poisoned memory.

    Args:
      async_positions: Positions in its vector clocks for asynchronous operations.

    Raises:
      UnavailableError: a piece of it is missing.
    """

    def __init__(self, async_positions: int) -> None:
        import dataclasses
        import importlib

        check_version()
        try:
            from jax.experimental.pallas import mosaic_gpu as plgpu

            state = importlib.import_module(INTERPRETER)
            params = plgpu.InterpretGPUParams
            names = {field.name for field in dataclasses.fields(params)}
            self._reset = state.reset_gpu_interpret_mode_state
            self._get_races = state.get_races
        except (ImportError, AttributeError, TypeError) as error:
            raise UnavailableError(f"{type(error).__name__}: {error}") from error
        options: dict[str, Any] = {
            "detect_races": True,
            "uninitialized_memory": "nan",
            "out_of_bounds_reads": "raise",
            "num_tma_threads_per_device": async_positions,
        }
        for name in options:
            if name not in names:
                raise UnavailableError(f"InterpretGPUParams has no {name}")
        if "on_race" in names:  # Since 0.12; before, races are printed.
            options["on_race"] = "warn"
        self.params = params(**options)

    def reset(self) -> None:
        """Forgets memory and races of the kernel that ran before."""
        self._reset()

    def races_found(self) -> bool:
        """Whether the kernel that ran last had a race."""
        try:
            found = self._get_races().races_found
        except (AssertionError, AttributeError) as error:
            raise UnavailableError("the race detector has no state") from error
        if not isinstance(found, bool):
            raise UnavailableError(f"the race detector says {found!r}")
        return found


@contextlib.contextmanager
def interpreted(params: Any) -> Iterator[None]:
    """Has every kernel that is traced in the block interpreted, whoever calls it.

    Kernels that kgen did not write take no `interpret` argument. JAX has such a switch
    for TPU kernels; what it holds is passed on to kernels of either kind.

    Raises:
      UnavailableError: this JAX has no such switch.
    """
    try:
        from jax._src import config

        switch = config.pallas_tpu_interpret_mode_context_manager
        before = switch.swap_local(params)
    except (ImportError, AttributeError) as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    try:
        yield
    finally:
        switch.set_local(before)


def pose_as_gpu(arch: Arch) -> None:
    """Has CPU devices say of themselves what kernels ask a GPU, such as its SMs.

    Persistent kernels launch one CTA per SM. A real GPU answers for itself.
    """
    import jax

    device = jax.devices()[0]
    answers = {
        "core_count": arch.num_sms,
        "compute_capability": arch.compute_capability,
    }
    for name, value in answers.items():
        if device.platform == "cpu" and not hasattr(device, name):
            setattr(type(device), name, value)


class InterpreterLog(logging.Handler):
    """Collects what the interpreter logs or prints while a kernel runs.

    Attributes:
      races: Texts of the races, as far as they were told.
      error: The first exception in one of the interpreter's callbacks. What XLA raises
        for it later has lost the traceback.
    """

    def __init__(self) -> None:
        super().__init__()
        self.races: list[str] = []
        self.error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a race or a failed callback."""
        if record.exc_info and self.error is None:
            self.error = record.exc_info[1]
        text = record.getMessage()
        if text.startswith(RACE):
            self.races.append(text)

    @contextlib.contextmanager
    def collect(self) -> Iterator[None]:
        """Listens to the interpreter."""
        loggers = [logging.getLogger(name) for name in ("", "jax")]
        for logger in loggers:
            logger.addHandler(self)
        try:
            with contextlib.redirect_stdout(_PrintedRaces(self.races)):
                yield
        finally:
            for logger in loggers:
                logger.removeHandler(self)


class _PrintedRaces(io.TextIOBase):
    """Stands in for stdout, where JAX before 0.12 prints its races."""

    def __init__(self, races: list[str]) -> None:
        self._races = races

    def write(self, text: str) -> int:
        if text.startswith(RACE):
            self._races.append(text)
        return len(text)


def source_line(source_info: Any, module: Path) -> int | None:
    """Returns the module's line that a JAX operation came from, if that can be told."""
    try:
        from jax._src import source_info_util

        text = str(source_info_util.summarize(source_info))
    except Exception:
        return None
    return line_in(text, module)


def line_in(text: str, module: Path) -> int | None:
    """Returns the first line of the module that `text` names as `path:line`."""
    found = re.search(re.escape(str(module)) + r":(\d+)", text)
    return int(found[1]) if found else None


def kernels_smem_bytes(lowered: Any) -> list[int]:
    """Returns the dynamic SMEM in bytes of every Mosaic GPU kernel in `lowered`.

    Raises:
      UnavailableError: a figure could not be read.
    """
    try:
        module = lowered.compiler_ir("stablehlo")
        return [
            _launch_smem_bytes(op.attributes["mhlo.backend_config"][_MODULE])
            for op in _operations(module, "stablehlo.custom_call")
            if op.attributes["call_target_name"].value == _CUSTOM_CALL
        ]
    except UnavailableError:
        raise
    except Exception as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error


def _launch_smem_bytes(serialized: Any) -> int:
    """Reads the size from the operand of the launch in a serialised module."""
    from jax.extend.mlir import ir

    # The context knows the types; the operations are not registered anywhere.
    context = serialized.context
    before = context.allow_unregistered_dialects
    context.allow_unregistered_dialects = True
    try:
        module = ir.Module.parse(serialized.value_bytes, context)
    finally:
        context.allow_unregistered_dialects = before
    launches = _operations(module, _LAUNCH)
    if len(launches) != 1:
        raise UnavailableError(f"the serialised module has {len(launches)} launches")
    segments = list(launches[0].attributes["operandSegmentSizes"])
    if segments[_SMEM_GROUP] != 1:
        raise UnavailableError("the launch names no SMEM size")
    size = launches[0].operands[sum(segments[:_SMEM_GROUP])]
    return int(size.owner.attributes["value"].value)


def _operations(module: Any, name: str) -> list[Any]:
    """Returns the operations whose name ends with `name`; serialising adds a prefix."""
    from jax.extend.mlir import ir

    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name.endswith(name):
            found.append(op)
            # Nothing of interest is inside a kernel's launch, and that is most of it.
            return ir.WalkResult.SKIP
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found
