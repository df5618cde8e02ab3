"""`kgen doctor`: it tells what is wrong here, and never fails on it."""

import json
import sys

import pytest
from commands import kgen

from kgen import doctor, installed
from kgen.cli.doctor import FIELDS
from kgen.doctor import Device, Probe, judge_levels, read_probe
from kgen.installed import ptxas_warnings

HOPPER = Device(platform="gpu", kind="NVIDIA H200", compute_capability="9.0")
CPU = Device(platform="cpu", kind="cpu", compute_capability=None)


def probe(**changes):
    values = {"jax": "0.12.0.1", "mosaic_gpu": True, "devices": (CPU,), "error": None}
    return Probe(**(values | changes))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Returns a function that puts a module `jax` in the place of the real one."""

    def put(source):
        (tmp_path / "stub").mkdir()
        (tmp_path / "stub/jax.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stub"))

    return put


def test_json(cache):
    outcome = kgen("doctor", "--format", "json")
    assert outcome.exit_code == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert list(found) == list(FIELDS)
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["jax"]["imported"] == found["packages"]["jax"]
    assert found["jax"]["supported"] is True
    assert found["jax"]["mosaic_gpu"] is True
    assert found["jax"]["error"] is None
    assert found["cache_dir"].startswith(str(cache))
    assert found["cache_writable"] is True
    assert not cache.exists()
    levels = {level["level"]: level["possible"] for level in found["levels"]}
    assert list(levels) == ["static", "lower", "simulate", "gpu"]
    assert levels["static"] is levels["lower"] is levels["simulate"] is True
    assert found["can_render"] is True


def test_without_jax(cache, stub):
    stub("raise ImportError('no jax here')")
    outcome = kgen("doctor")
    assert outcome.exit_code == 1
    assert outcome.stderr == ""
    lines = outcome.stdout.splitlines()
    assert "  JAX that is imported  none (kgen needs jax >= 0.11.2 and < 0.13)" in lines
    assert "  JAX says              ImportError: no jax here" in lines
    assert "  static    yes       needs nothing" in lines
    assert "  lower     no        ImportError: no jax here" in lines
    assert "  simulate  no        ImportError: no jax here" in lines
    assert "  gpu       no        ImportError: no jax here" in lines


def test_with_a_jax_that_aborts(cache, stub):
    stub("import os; os.abort()")
    outcome = kgen("doctor", "--format", "json")
    assert outcome.exit_code == 1
    error = json.loads(outcome.stdout)["jax"]["error"]
    assert error == "JAX ended the process that used it (signal 6)"


def test_with_a_jax_that_hangs(cache, stub, monkeypatch):
    stub("import time; time.sleep(60)")
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 0.5)
    outcome = kgen("doctor", "--format", "json")
    assert outcome.exit_code == 1
    assert (
        json.loads(outcome.stdout)["jax"]["error"] == "JAX did not answer within 0.5 s"
    )


def test_with_a_jax_that_hangs_only_over_devices(stub):
    stub(
        "import sys, time, types\n"
        "__version__ = '0.12.0'\n"
        "__path__ = []\n"
        "for name in ('experimental', 'experimental.pallas', "
        "'experimental.pallas.mosaic_gpu'):\n"
        "    sys.modules['jax.' + name] = types.ModuleType('jax.' + name)\n"
        "print('some log')\n"
        "def devices():\n"
        "    time.sleep(60)\n"
    )
    found = doctor.probe_jax(3)
    assert found == probe(
        jax="0.12.0", devices=(), error="JAX did not answer within 3 s"
    )
    levels = {level.level: level.possible for level in judge_levels(found)}
    assert levels == {"static": True, "lower": True, "simulate": True, "gpu": False}


def test_with_another_version_of_jax(cache, stub):
    stub("__version__ = '0.13.1'")
    outcome = kgen("doctor", "--format", "json")
    assert outcome.exit_code == 1
    found = json.loads(outcome.stdout)
    assert found["jax"]["supported"] is False
    assert found["levels"][1]["reason"] == (
        "jax 0.13.1 is not supported; kgen needs jax >= 0.11.2 and < 0.13"
    )


def test_a_cache_that_is_not_writable(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o755)
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "file"))
    outcome = kgen("doctor", "--format", "json")
    assert outcome.exit_code == 0
    found = json.loads(outcome.stdout)
    assert found["cache_writable"] is False
    assert found["warnings"][-1] == (
        f"{found['cache_dir']} is not writable: verdicts are not remembered, so every "
        "rendering verifies again"
    )


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("0.11.1", False),
        ("0.11.2", True),
        ("0.12", True),
        ("0.12.0.1", True),
        ("0.12.9.dev20260101", True),
        ("0.13.0", False),
        ("0.13.0rc1", False),
        ("1.0", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_range_of_jax(version, supported):
    assert doctor.in_jax_range(version) is supported


def test_levels_with_a_hopper_gpu():
    level = judge_levels(probe(devices=(HOPPER,)))[-1]
    assert (level.level, level.possible, level.reason) == ("gpu", True, "NVIDIA H200")


def test_levels_with_another_gpu():
    other = Device(platform="gpu", kind="NVIDIA A100", compute_capability="8.0")
    level = judge_levels(probe(devices=(other,)))[-1]
    assert not level.possible
    assert level.reason == "needs an NVIDIA Hopper GPU; JAX sees NVIDIA A100"


def test_levels_without_absl():
    found = probe(mosaic_gpu=False, error="ModuleNotFoundError: No module named 'absl'")
    level = judge_levels(found)[1]
    assert not level.possible
    assert level.reason == (
        "Pallas Mosaic GPU cannot be imported: "
        "ModuleNotFoundError: No module named 'absl'"
    )


def test_a_probe_that_said_nothing():
    assert read_probe("a log line\n", None) == Probe(
        jax=None,
        mosaic_gpu=False,
        devices=(),
        error="JAX ended the process that imported it",
    )


@pytest.mark.parametrize(
    ("version", "bad"),
    [
        ("12.6.85", False),
        ("12.8.61", True),
        ("12.8.93", True),
        ("12.9.86", True),
        ("12.9.87", False),
        ("13.0.88", False),
    ],
)
def test_known_bad_ptxas(version, bad):
    warning = (
        f"ptxas {version} (here): CUDA 12.8.0 up to 12.9.1 miscompile causal attention"
    )
    assert ptxas_warnings([("here", version)]) == ([warning] if bad else [])


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Returns a function that puts a program on the PATH."""

    def put(name, script):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:/bin:/usr/bin")
        return path

    return put


def test_finds_the_driver_and_ptxas(tool):
    tool("nvidia-smi", "echo 580.65.06; echo 580.65.06")
    path = tool("ptxas", "echo 'Cuda compilation tools, release 12.8, V12.8.93'")
    assert installed.find_driver() == "580.65.06"
    assert (str(path), "12.8.93") in installed.find_ptxas()


@pytest.mark.parametrize(
    "script", ["exit 9", "echo No devices were found", "printf '\\377'"]
)
def test_tools_that_fail(tool, script):
    tool("nvidia-smi", script)
    path = tool("ptxas", script)
    assert installed.find_driver() is None
    assert str(path) not in dict(installed.find_ptxas())


def test_a_tool_that_hangs(tool, monkeypatch):
    tool("nvidia-smi", "exec sleep 60")
    monkeypatch.setattr(installed, "TOOL_SECONDS", 0.2)
    assert installed.find_driver() is None
