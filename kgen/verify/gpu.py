"""Level `gpu`: the module runs on a GPU, and what it returns is right every time.

What no CPU can tell: whether ptxas compiles the kernel and with how many registers,
whether it is right on hardware, also at sizes too large to simulate, and whether it is
right by luck: a race shows as bits that change from run to run, memory that nobody
wrote as NaN.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgen.arch import ARCHS
from kgen.verify import ptxas, upstream
from kgen.verify.explain import LevelError, NotModelledError, explain
from kgen.verify.request import FUNCTION, Case, Request, is_empty

RUNS = 50
"""Runs at every size on every kind of inputs."""

ENVIRONMENT = {
    "JAX_PLATFORMS": "",  # As if it were not set: a GPU if there is one.
    "MOSAIC_GPU_DUMP_PTXAS": "1",
    # Several workers may share the GPU.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    # References of large sizes are large products; empty stands for all cores.
    "OPENBLAS_NUM_THREADS": "",
}
"""Variables that this level's process needs; they count more than any others."""

NO_FIGURES = "registers not known: ptxas said nothing"


def run(
    function: Callable[..., Any],
    request: Request,
    module: Path,
    progress: Callable[[str], None],
) -> tuple[str, ...]:
    """Runs `function` on a GPU at every case, on small integers and on normal values.

    Args:
      function: The module's public function.
      request: Sizes and dtypes.
      module: The module's file.
      progress: Told what is being tried.

    Returns:
      Registers, spills and SMEM, and what ptxas could not do as asked.

    Raises:
      LevelError: ptxas refuses the kernel, a result is wrong, or it is not the same in
        every run.
      NotModelledError: there is no GPU of the module's architecture.
    """
    try:
        device = find_device(request.arch)
    except upstream.UnavailableError as error:
        raise NotModelledError(f"not run on a gpu: {error}") from error
    level = Level(function, request, module, progress)
    notes = level.run(device)
    return (*notes, *_doubts_about_poison(device))


def find_device(arch: str) -> Any:
    """Returns the first GPU of an architecture that JAX sees.

    Raises:
      UnavailableError: there is none; the text says what there is.
    """
    import jax

    if arch not in ARCHS:
        raise upstream.UnavailableError(f"{arch} is not one of {', '.join(ARCHS)}")
    wanted = ARCHS[arch].compute_capability
    try:
        devices = jax.devices("cuda")
    except RuntimeError as error:
        found = ", ".join(sorted({d.device_kind for d in jax.devices()}))
        raise upstream.UnavailableError(
            f"jax {upstream.jax_version()} sees no NVIDIA GPU, only {found}"
        ) from error
    for device in devices:
        if getattr(device, "compute_capability", None) == wanted:
            return device
    kinds = ", ".join(
        f"{d.device_kind} ({getattr(d, 'compute_capability', 'unknown')})"
        for d in devices
    )
    raise upstream.UnavailableError(
        f"{arch} needs compute capability {wanted}, found {kinds}"
    )


@dataclasses.dataclass(frozen=True)
class Level:
    """Runs one function on a device."""

    function: Callable[..., Any]
    request: Request
    module: Path
    progress: Callable[[str], None]

    def run(self, device: Any, runs: int = RUNS) -> tuple[str, ...]:
        """Runs every case and returns notes; on any device that JAX has.

        Raises:
          LevelError: a case is wrong.
        """
        import jax

        from kgen.verify import numerics

        report, smem_bytes = ptxas.Report(), list[int]()
        with jax.default_device(device):
            for case in self.request.cases:
                told, size = self._collect(case, runs)
                report += told
                smem_bytes += size
        notes = ptxas.notes(report, max(smem_bytes, default=None))
        known = self.request.op != FUNCTION or self.request.reference
        return (
            *((NO_FIGURES,) if report.registers is None else ()),
            *notes,
            *(() if known else (numerics.NOT_COMPARED,)),
        )

    def _collect(self, case: Case, runs: int) -> tuple[ptxas.Report, list[int]]:
        """Runs a case; returns what ptxas said and the kernels' SMEM."""
        from kgen.verify import plain

        if is_empty(case):
            plain.check_empty(self.function, self.request, case, self.module)
            return ptxas.Report(), []
        printed = ptxas.Printed()
        try:
            with printed:
                smem_bytes = self._run(case, runs)
        except LevelError as error:
            refusal = ptxas.describe_refusal(ptxas.parse(printed.text))
            if refusal is None:
                raise
            raise LevelError(f"at {case}: {refusal}") from error
        return ptxas.parse(printed.text), smem_bytes

    def _run(self, case: Case, runs: int) -> list[int]:
        import jax

        from kgen.verify import numerics, repeats
        from kgen.verify.lower import called, operands
        from kgen.verify.reference import KINDS

        step = str(case)
        self.progress(step)
        try:
            kernel = repeats.Poisoned(
                called(self.function, case), operands(self.request, case)
            )
            for kind in KINDS:
                step = f"{case} on {kind}"
                self.progress(step)
                inputs, reference = numerics.draw(self.request, case, kind)
                on_device = [jax.device_put(values) for values in inputs]
                first, difference = repeats.repeat(kernel, on_device, runs)
                # A wrong result says more than that it changes.
                numerics.check(first, reference, self.request, kind, on_gpu=True)
                if difference is not None:
                    raise LevelError(f"{difference}; {repeats.A_RACE}")
        except LevelError as error:
            raise type(error)(f"at {step}: {error}") from error
        except Exception as error:
            raise LevelError(f"at {step}: {explain(error, self.module)}") from error
        try:
            return upstream.kernels_smem_bytes(kernel.lowered)
        except upstream.UnavailableError:
            return []


def _doubts_about_poison(device: Any) -> tuple[str, ...]:
    """Returns a note if it is not certain that unwritten memory would have shown.

    A kernel without a body leaves its result as it finds it, which must be NaN.
    """
    import jax

    from kgen.verify import repeats

    try:
        with jax.default_device(device):
            if repeats.reaches_results(_unwritten):
                return ()
        reason = "results do not lie in memory that was NaN before"
    except Exception as error:
        lines = f"{type(error).__name__}: {error}".splitlines()
        reason = f"a kernel without a body fails: {lines[0]}"
    return (f"unwritten memory not looked for: {reason}",)


def _unwritten() -> Any:
    """Returns what nobody wrote."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.pallas import mosaic_gpu as plgpu

    def body(_: Any) -> None:
        """Leaves its result alone."""

    struct: Any = jax.ShapeDtypeStruct
    kernel = plgpu.kernel(
        body,
        out_type=struct((256, 128), jnp.float16),
        grid=(1,),
        grid_names=("x",),
    )
    return kernel()
