"""The GPU and the software that a figure was measured with."""

import subprocess
from typing import Any

from kgen.arch import ARCHS
from kgen.errors import ExitCode, KgenError

L2_BYTES = {"sm_90a": 60 * 2**20}
"""L2 of the largest card of an architecture.

Source: `cudaDeviceProp.l2CacheSize` of an H200.
"""

UNKNOWN = "unknown"
_QUERY = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


class NoGpuError(KgenError):
    """There is no GPU here that a kernel could be measured on."""

    exit_code = ExitCode.USAGE


def find_gpu(arch: str) -> Any:
    """Returns the first GPU of an architecture that JAX sees.

    Raises:
      NoGpuError: there is none; the text says what there is.
    """
    from kgen.verify import upstream
    from kgen.verify.gpu import find_device

    try:
        return find_device(arch)
    except upstream.UnavailableError as error:
        titles = ", ".join(f"{a.title} ({a.name})" for a in ARCHS.values())
        raise NoGpuError(
            f"nothing to measure on: {error}\n"
            f"  allowed: a machine with a GPU that kgen knows: {titles}\n"
            "  hint: `kgen doctor` tells what JAX sees; `kgen verify` proves kernels on"
            " a CPU"
        ) from error


def l2_bytes(arch: str) -> int:
    """Returns the size of the L2 cache, of which JAX says nothing."""
    return L2_BYTES[arch]


def describe(device: Any = None) -> dict[str, str]:
    """Returns what a figure depends on beside the kernel, as text.

    Args:
      device: A `jax.Device`; by default JAX's first.
    """
    import jax

    device = jax.devices()[0] if device is None else device
    version = device.client.platform_version.split()
    return {
        "device": device.device_kind,
        "compute_capability": str(getattr(device, "compute_capability", UNKNOWN)),
        "driver": _driver(),
        "cuda": _cuda(version[-1]) if "cuda" in version[:-1] else UNKNOWN,
        "jax": jax.__version__,
    }


def _cuda(number: str) -> str:
    """Returns CUDA's version of a number such as 13000."""
    if not number.isdigit():
        return UNKNOWN
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def _driver() -> str:
    try:
        told = subprocess.run(
            _QUERY, capture_output=True, text=True, timeout=30, check=False
        ).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return told[0] if told else UNKNOWN


def probe(worker: Any) -> None:
    """Sends the parent what this machine is: a task of `kgen.measure.worker`."""
    worker.send("machine", machine=describe(worker.session().device))
