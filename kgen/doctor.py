"""What this machine has, and which verification levels can run on it."""

import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgen.arch import ARCHS

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
PTXAS_PACKAGES = ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc")
JAX_RANGE = ((0, 11, 2), (0, 13))
JAX_RANGE_TEXT = "jax >= 0.11.2 and < 0.13"
# JAX may abort, or wait for a GPU or a network that does not answer.
PROBE_SECONDS = 60.0
TOOL_SECONDS = 10.0
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


def examine(cache_dir: Path, *, timeout: float = PROBE_SECONDS) -> Findings:
    """Looks at this machine; never raises because of what it finds.

    Args:
      cache_dir: Where verdicts are remembered.
      timeout: Seconds that JAX is given to tell about itself.
    """
    from kgen import __version__

    probe = probe_jax(timeout)
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
        packages=_versions(PACKAGES),
        cuda_plugins=_versions(CUDA_PLUGINS),
        probe=probe,
        driver=find_driver(),
        ptxas=ptxas,
        cache_dir=str(cache_dir),
        cache_writable=writable,
        warnings=tuple(warnings),
        levels=judge_levels(probe),
    )


def probe_jax(timeout: float) -> Probe:
    """Imports JAX in a process of its own and returns what it tells."""
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
    return least <= _numbers(version) < above


def find_ptxas() -> tuple[tuple[str, str], ...]:
    """Returns (where, version) of every ptxas that JAX may use."""
    found = [
        (name, version)
        for name, version in _versions(PTXAS_PACKAGES).items()
        if version is not None
    ]
    path = shutil.which("ptxas")
    if path is not None:
        match = re.search(r"\bV([0-9.]+)", _output_of([path, "--version"]))
        if match:
            found.append((path, match[1]))
    return tuple(found)


def ptxas_warnings(found: Sequence[tuple[str, str]]) -> list[str]:
    """Returns a warning for each ptxas that is known to be bad.

    NVIDIA numbers it as major.minor.build: CUDA 12.8.0 begins with 12.8.0 and CUDA
    12.9.1 brings 12.9.86.
    """
    return [
        f"ptxas {version} ({where}): CUDA 12.8.0 up to 12.9.1 miscompile causal attention"
        for where, version in found
        if (12, 8) <= _numbers(version) <= (12, 9, 86)
    ]


def find_driver() -> str | None:
    """Returns the version of the NVIDIA driver, if nvidia-smi is there and tells."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    query = ["--query-gpu=driver_version", "--format=csv,noheader"]
    lines = _output_of([path, *query]).split()
    return lines[0] if lines and re.fullmatch(r"[0-9.]+", lines[0]) else None


def is_writable(directory: Path) -> bool:
    """Returns whether files can be made in `directory`, which need not exist yet."""
    for place in (directory, *directory.parents):
        try:
            if place.exists():
                return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
        except OSError:
            return False
    return False


def _output_of(command: Sequence[str]) -> str:
    """Returns what `command` prints; nothing if it fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def _versions(names: Sequence[str]) -> dict[str, str | None]:
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """Returns the leading numbers of a version: (0, 12, 0, 1) of `0.12.0.1.dev3`."""
    match = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
