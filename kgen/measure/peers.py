"""What kernels are measured against: XLA, JAX's shipped Hopper matmul, PyTorch.

A peer computes the same product from the same operands. One that cannot says why.
"""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

from kgen.errors import KgenError, UsageError
from kgen.float8 import FLOAT8
from kgen.layouts import COLUMN, logical, stored
from kgen.measure.problem import Problem
from kgen.measure.timing import Compiled, Sets, compile_each

XLA, JAX_EXAMPLE, TORCH = "xla", "jax-example", "torch"
PEERS = {
    XLA: "jnp.dot, which XLA hands to cuBLAS or its own kernels",
    JAX_EXAMPLE: "JAX's shipped hopper_matmul_mgpu at the best of its sweep",
    TORCH: "torch.matmul",
}
"""The peers, and what each is."""


class NoPeerError(KgenError):
    """A peer cannot compute this product here; the message says why."""


def check(name: str) -> str:
    """Returns the name of a peer.

    Raises:
      UsageError: there is no such peer.
    """
    if name not in PEERS:
        raise UsageError(f"there is no peer {name!r}\n  allowed: {', '.join(PEERS)}")
    return name


def xla(problem: Problem) -> Callable[..., Any]:
    """Returns XLA's product: float32 accumulation, results in the problem's dtype.

    Where it can, the product itself has that dtype, as `jnp.dot(a, b)` has: a product in
    float32 that is rounded afterwards may be two kernels, and slower.
    """
    import jax.numpy as jnp

    dtype = problem.out_dtype
    # Of 8-bit floats cuBLAS makes any result, of others their own dtype or float32.
    direct = dtype in (problem.operand_dtype, "float32")
    direct = direct or problem.operand_dtype in FLOAT8

    def product(a: Any, b: Any) -> Any:
        a, b = logical(problem.layout, a, b)
        result = jnp.matmul(
            a, b, preferred_element_type=dtype if direct else jnp.float32
        )
        return stored(problem.out_order, result).astype(dtype)

    return product


def compile_xla(problem: Problem, sets: Sets) -> Compiled:
    """Returns XLA's product of every set, ready to be timed."""
    return compile_each(xla(problem), sets)


def compile_torch(problem: Problem, sets: Sets) -> Compiled:
    """Returns PyTorch's product of every set, ready to be timed.

    Raises:
      NoPeerError: PyTorch is not there, or sees no GPU.
    """
    if problem.operand_dtype in FLOAT8:
        raise NoPeerError("torch.matmul takes no 8-bit floats")
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise NoPeerError(f"PyTorch cannot be imported: {error}") from None
    if not torch.cuda.is_available():
        raise NoPeerError(f"PyTorch {torch.__version__} sees no GPU")
    # As XLA does by default.
    torch.backends.cuda.matmul.allow_tf32 = True
    return Compiled(run=_TorchProducts(torch, problem, sets), calls=len(sets))


@dataclasses.dataclass
class _TorchProducts:
    """PyTorch's products, run as a compiled function of JAX would be.

    JAX's profiler times every kernel of the process. It takes anything that has the
    methods of `jax.stages.Wrapped`, and would trace anything else.
    """

    torch: Any
    problem: Problem
    sets: dataclasses.InitVar[Sets]

    def __post_init__(self, sets: Sets) -> None:
        take = self.torch.from_dlpack
        layout = self.problem.layout
        self._pairs = [logical(layout, take(a), take(b)) for a, b, *_ in sets]
        if self.problem.out_order == COLUMN:
            # The product in the order that is asked for: C.T = B.T @ A.T.
            self._pairs = [(b.mT, a.mT) for a, b in self._pairs]
        self._dtype = getattr(self.torch, self.problem.out_dtype)

    def __call__(self, _: Sets) -> None:
        for a, b in self._pairs:
            self.torch.matmul(a, b).to(self._dtype)
        self.torch.cuda.synchronize()

    def trace(self, *_: Any) -> Any:
        raise NotImplementedError("PyTorch's products are not traced")

    def lower(self, *_: Any) -> Any:
        raise NotImplementedError("PyTorch's products are not lowered")
