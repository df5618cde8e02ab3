"""What is installed: packages, the NVIDIA driver and ptxas."""

import importlib.metadata
import re
import shutil
import subprocess
from collections.abc import Sequence

PTXAS_PACKAGES = ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc")
TOOL_SECONDS = 10.0


def versions(names: Sequence[str]) -> dict[str, str | None]:
    """Returns the installed version of each package, or None."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """Returns the leading numbers of a version: (0, 12, 0, 1) of `0.12.0.1.dev3`."""
    match = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def find_ptxas() -> tuple[tuple[str, str], ...]:
    """Returns (where, version) of every ptxas that JAX may use."""
    found = [
        (name, version)
        for name, version in versions(PTXAS_PACKAGES).items()
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
        if (12, 8) <= numbers(version) <= (12, 9, 86)
    ]


def find_driver() -> str | None:
    """Returns the version of the NVIDIA driver, if nvidia-smi is there and tells."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    query = ["--query-gpu=driver_version", "--format=csv,noheader"]
    lines = _output_of([path, *query]).split()
    return lines[0] if lines and re.fullmatch(r"[0-9.]+", lines[0]) else None


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
