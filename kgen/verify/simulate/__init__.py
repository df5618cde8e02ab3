"""Level `simulate`: the module runs in JAX's GPU interpreter, and its numbers are right.

The interpreter runs every CTA on the CPU with the GPU's memory spaces and barriers,
watches for data races and fills memory with NaN before it is written. What it lacks
is added by `kgen.verify.simulate.install`; `kgen.verify.simulate.gaps` lists it.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgen.verify import numerics, plain, upstream
from kgen.verify.explain import LevelError, NotModelledError, explain
from kgen.verify.lower import called, operands
from kgen.verify.request import FUNCTION, Case, Request, is_empty
from kgen.verify.simulate import callbacks, diagnosis, install, wgmma
from kgen.verify.simulate.patches import PATCHES
from kgen.verify.simulate.unmodelled import failure

INSTALLATIONS = (install.install, callbacks.install, diagnosis.install)
"""What adds the simulator to JAX's interpreter."""
X64_MODES = (False, True)
"""x64 modes in which the first case runs."""
UNTOLD_RACE = "data race; the interpreter does not say where"


def run(
    function: Callable[..., Any],
    request: Request,
    module: Path,
    progress: Callable[[str], None],
) -> tuple[str, ...]:
    """Runs `function` at every case that asks for it; at the first with x64 mode, too.

    Args:
      function: The module's public function.
      request: Sizes and dtypes.
      module: The module's file.
      progress: Told what is being tried.

    Returns:
      What a user should know though all is well.

    Raises:
      LevelError: a result is wrong, or there is a race.
      NotModelledError: the kernel cannot be simulated.
    """
    cases = [c for c in request.cases if c.simulate and not is_empty(c)]
    plain.check(function, request, module, progress)
    try:
        with PATCHES.applied(*INSTALLATIONS):
            interpreter = upstream.Interpreter(wgmma.POSITIONS)
            simulator = Simulator(function, request, module, interpreter, progress)
            for index, (case, kinds) in enumerate(numerics.kinds_of_inputs(cases)):
                for x64 in X64_MODES if index == 0 else (False,):
                    simulator.run(case, kinds, x64=x64)
    except upstream.UnavailableError as error:
        version = upstream.jax_version()
        raise NotModelledError(f"not simulated on jax {version}: {error}") from error
    known = request.op != FUNCTION or request.reference
    return () if known else (numerics.NOT_COMPARED,)


@contextlib.contextmanager
def _settings(*, x64: bool) -> Iterator[None]:
    """Switches x64 mode, and compiles fast: what is compiled runs once or twice.

    For all threads, since the interpreter's compile too; `jax.enable_x64` would switch
    this one's mode.
    """
    import jax

    config: Any = jax.config
    settings = {"jax_enable_x64": x64, "jax_disable_most_optimizations": True}
    before = {name: config.values[name] for name in settings}
    for name, value in settings.items():
        config.update(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            config.update(name, value)


@dataclasses.dataclass(frozen=True)
class Simulator:
    """Runs one function in the interpreter."""

    function: Callable[..., Any]
    request: Request
    module: Path
    interpreter: upstream.Interpreter
    progress: Callable[[str], None]

    def run(self, case: Case, kinds: Sequence[str], *, x64: bool) -> None:
        """Compiles the kernel once for a case and runs it on every kind of inputs."""
        at = f"{case}, x64 mode" if x64 else str(case)
        self.progress(at)
        with _settings(x64=x64):
            try:
                kernel = self._compile(case)
            except Exception as error:
                text = f"at {at}: {_explain(error, self.module)}"
                raise failure(error, text) from error
            for kind in kinds:
                step = f"{at} on {kind}"
                self.progress(step)
                try:
                    inputs, reference = numerics.draw(self.request, case, kind)
                    result = self._execute(kernel, inputs)
                    numerics.check(result, reference, self.request, kind, on_gpu=False)
                except NotModelledError:
                    raise
                except LevelError as error:
                    raise type(error)(f"at {step}: {error}") from error

    def _compile(self, case: Case) -> Callable[..., Any]:
        import jax

        with upstream.interpreted(self.interpreter.params):
            lowered = jax.jit(called(self.function, case)).lower(
                *operands(self.request, case)
            )
        compiled: Callable[..., Any] = lowered.compile()
        return compiled

    def _execute(self, kernel: Callable[..., Any], inputs: list[Any]) -> Any:
        """Runs the kernel once and returns what it does; races and errors are raised."""
        import jax

        self.interpreter.reset()
        diagnosis.begin()
        log = upstream.InterpreterLog()
        try:
            with log.collect():
                result = jax.tree.map(np.asarray, kernel(*inputs))
        except Exception as error:
            first = log.error or error
            text = diagnosis.describe_failure(self.module)
            if text is None:
                text = _explain(first, self.module)
            raise failure(first, text) from error
        if self.interpreter.races_found() or log.races:
            raise LevelError(diagnosis.describe_found(self.module) or UNTOLD_RACE)
        return result


def _explain(error: BaseException, module: Path) -> str:
    """Explains an error, with the line whose operation was being interpreted."""
    text = explain(error, module)
    if str(module.name) + ":" in text:
        return text
    place = diagnosis.failed_at(module)
    return f"{text}; at {place}" if place else text
