"""What the simulator knows of and does not model: it says so, and never passes over."""

from collections.abc import Sequence
from typing import Any, NoReturn

from kgen.verify.simulate.pieces import Jax, refused

REFUSED = {
    "gpu.inline_mgpu_p": "plgpu.inline_mgpu",
    "gpu.mma_p": "plgpu.mma",
    "gpu.barrier_test_p": "plgpu.barrier_test",
    "gpu.async_store_smem_p": "plgpu.async_store_smem",
    "gpu.wait_gmem_to_smem_p": "plgpu.wait_gmem_to_smem",
    "gpu.griddepcontrol_wait_p": "plgpu.griddepcontrol_wait",
    "gpu.griddepcontrol_launch_dependents_p": "plgpu.griddepcontrol_launch_dependents",
    "gpu.multimem_store_p": "plgpu.multimem_store",
    "gpu.multimem_load_reduce_p": "plgpu.multimem_load_reduce",
    "gpu.semaphore_signal_p": "plgpu.semaphore_signal",
    "gpu.semaphore_signal_parallel_p": "plgpu.semaphore_signal_parallel",
    "gpu.semaphore_signal_multicast_p": "plgpu.semaphore_signal_multicast",
    "gpu.semaphore_wait_p": "plgpu.semaphore_wait",
    "pallas.semaphore_signal_p": "pl.semaphore_signal",
    "pallas.semaphore_wait_p": "pl.semaphore_wait",
    "pallas.semaphore_read_p": "pl.semaphore_read",
    "pallas.get_global_p": "pl.get_global",
    "pallas.program_id_p": "pl.program_id (use jax.lax.axis_index)",
    "pallas.num_programs_p": "pl.num_programs",
}
"""Primitives that are refused, and what a kernel's author calls them."""


def interpret_refused(
    jax: Jax,
    interpreter: Any,
    eqn: Any,
    token: Any,
    invals: Sequence[Any],
    *,
    called: str,
) -> NoReturn:
    """Says that the primitive is not modelled."""
    del jax, interpreter, eqn, token, invals
    raise refused(f"{called} is not modelled")


def pass_over(
    jax: Jax, interpreter: Any, eqn: Any, token: Any, invals: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Does nothing, for what only takes time."""
    del jax, interpreter, eqn, invals
    return token, []
