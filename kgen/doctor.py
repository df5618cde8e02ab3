"""What this machine has, and which verification levels can run on it."""

import dataclasses
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from kgen.arch import ARCHS
from kgen.installed import (
    find_driver,
    find_ptxas,
    numbers,
    ptxas_warnings,
    versions,
)

PACKAGES = (
    "jax",
    "jaxlib",
    "absl-py",
    "numpy",
    "black",
    "click",
    "jinja2",
    "pydantic",
    "rich",
)
CUDA_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin")
JAX_RANGE = ((0, 11, 2), (0, 13))
JAX_RANGE_TEXT = "jax >= 0.11.2 and < 0.13"
# JAX may abort, or wait for a GPU or a network that does not answer.
PROBE_SECONDS = 60.0
_MARK = "kgen-doctor:"

# Runs in a process of its own: importing JAX can abort it. What is known is told before
# the next step, which may be the last one.
_PROBE = f"""
import json
found = {{"jax": None, "mosaic_gpu": False, "devices": [], "error": None}}
def tell():
    print({_MARK!r} + json.dumps(found), flush=True)
try:
    import jax
    found["jax"] = str(jax.__version__)
    import jax.experimental.pallas.mosaic_gpu
    found["mosaic_gpu"] = True
    tell()
    for device in jax.devices():
        found["devices"].append({{
            "platform": str(device.platform),
            "kind": str(device.device_kind),
            "compute_capability": getattr(device, "compute_capability", None),
        }})
except BaseException as error:
    found["error"] = type(error).__name__ + ": " + str(error)
tell()
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """A device that JAX sees."""

    platform: str
    kind: str
    compute_capability: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """What JAX tells about itself, in a process of its own.

    Attributes:
      jax: Version of the JAX that was imported, or None.
      mosaic_gpu: Whether `jax.experimental.pallas.mosaic_gpu` could be imported.
      devices: Devices that it sees.
      error: What went wrong, on one line, or None.
    """

    jax: str | None
    mosaic_gpu: bool
    devices: tuple[Device, ...]
    error: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Level:
    """Whether one verification level can run here, and why or why not."""

    level: str
    possible: bool
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings:
    """All that `kgen doctor` tells.

    Attributes:
      kgen: Version of kgen.
      python: Version of Python.
      platform: Operating system and machine.
      packages: Installed version of each package, or None.
      cuda_plugins: The same for JAX's CUDA plugins.
      probe: What JAX tells.
      driver: Version of the NVIDIA driver, or None.
      ptxas: (where, version) of every ptxas that was found.
      cache_dir: Directory of remembered verdicts.
      cache_writable: Whether kgen can write there.
      warnings: What may go wrong, each on one line.
      levels: Verification levels, in their order.
    """

    kgen: str
    python: str
    platform: str
    packages: dict[str, str | None]
    cuda_plugins: dict[str, str | None]
    probe: Probe
    driver: str | None
    ptxas: tuple[tuple[str, str], ...]
    cache_dir: str
    cache_writable: bool
    warnings: tuple[str, ...]
    levels: tuple[Level, ...]

    @property
    def can_render(self) -> bool:
        """Whether `kgen render` can do all that it does by default."""
        return all(level.possible for level in self.levels if level.level != "gpu")


def examine(cache_dir: Path) -> Findings:
    """Looks at this machine; never raises because of what it finds.

    Args:
      cache_dir: Where verdicts are remembered.
    """
    from kgen import __version__

    probe = probe_jax(PROBE_SECONDS)
    ptxas = find_ptxas()
    writable = is_writable(cache_dir)
    warnings = [*ptxas_warnings(ptxas)]
    if not writable:
        warnings.append(
            f"{cache_dir} is not writable: verdicts are not remembered, so every "
            "rendering verifies again"
        )
    return Findings(
        kgen=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=versions(PACKAGES),
        cuda_plugins=versions(CUDA_PLUGINS),
        probe=probe,
        driver=find_driver(),
        ptxas=ptxas,
        cache_dir=str(cache_dir),
        cache_writable=writable,
        warnings=tuple(warnings),
        levels=judge_levels(probe),
    )


def probe_jax(timeout: float) -> Probe:
    """Imports JAX in a process of its own and returns what it tells in `timeout` s."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        late = f"JAX did not answer within {timeout:g} s"
        return read_probe((expired.stdout or b"").decode(errors="replace"), late)
    except OSError as error:
        return read_probe("", f"could not start Python: {error.strerror}")
    code = done.returncode
    ended = None
    if code:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        ended = f"JAX ended the process that used it ({how})"
    return read_probe(done.stdout.decode(errors="replace"), ended)


def read_probe(output: str, ended: str | None) -> Probe:
    """Returns what the probe printed last; JAX may print lines of its own around it.

    Args:
      output: All that it printed.
      ended: Why the probe came to no proper end, or None.
    """
    told = [line for line in output.splitlines() if line.startswith(_MARK)]
    if not told:
        error = ended or "JAX ended the process that imported it"
        return Probe(jax=None, mosaic_gpu=False, devices=(), error=error)
    found: dict[str, Any] = json.loads(told[-1].removeprefix(_MARK))
    error = found["error"]
    return Probe(
        jax=found["jax"],
        mosaic_gpu=found["mosaic_gpu"],
        devices=tuple(Device(**device) for device in found["devices"]),
        error=ended if error is None else " ".join(error.split()),
    )


def judge_levels(probe: Probe) -> tuple[Level, ...]:
    """Returns which verification levels can run, given what JAX tells."""
    trouble = _jax_trouble(probe)
    on_cpu = trouble or f"on the CPU, with jax {probe.jax}"
    gpu, gpu_reason = _judge_gpu(probe, trouble)
    return (
        Level(level="static", possible=True, reason="needs nothing"),
        Level(level="lower", possible=trouble is None, reason=on_cpu),
        Level(level="simulate", possible=trouble is None, reason=on_cpu),
        Level(level="gpu", possible=gpu, reason=gpu_reason),
    )


def _judge_gpu(probe: Probe, trouble: str | None) -> tuple[bool, str]:
    if trouble is not None:
        return False, trouble
    wanted = {arch.compute_capability: arch.title for arch in ARCHS.values()}
    for device in probe.devices:
        if device.compute_capability in wanted:
            return True, device.kind
    needed = " or ".join(f"{title} GPU" for title in wanted.values())
    if probe.error is not None:
        return False, f"needs an {needed}; {probe.error}"
    seen = ", ".join(sorted({device.kind for device in probe.devices})) or "nothing"
    return False, f"needs an {needed}; JAX sees {seen}"


def _jax_trouble(probe: Probe) -> str | None:
    """Returns why JAX cannot lower or simulate a kernel; None if it can."""
    if probe.jax is None:
        return probe.error or "jax cannot be imported"
    if not in_jax_range(probe.jax):
        return f"jax {probe.jax} is not supported; kgen needs {JAX_RANGE_TEXT}"
    if not probe.mosaic_gpu:
        return f"Pallas Mosaic GPU cannot be imported: {probe.error}"
    return None


def in_jax_range(version: str) -> bool:
    """Returns whether kgen supports this version of JAX."""
    least, above = JAX_RANGE
    return least <= numbers(version) < above


def is_writable(directory: Path) -> bool:
    """Returns whether files can be made in `directory`, which need not exist yet."""
    for place in (directory, *directory.parents):
        try:
            if place.exists():
                return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
        except OSError:
            return False
    return False
