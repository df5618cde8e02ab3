"""What is private in JAX: where it is not as known, nothing passes."""

import logging
from pathlib import Path

import jax
import pytest
from verify_requests import SMALL_MATMUL, SMALL_SMEM_BYTES, request

from kgen.verify import lower, simulate, upstream
from kgen.verify.explain import LevelError

VERSION = jax.__version__


def ignore(_):
    """Takes progress."""


@pytest.fixture
def run(tmp_path):
    """Runs a level of the small kernel in this process."""
    path = tmp_path / "small_matmul.py"
    path.write_text(SMALL_MATMUL)
    names = {"__name__": "small_matmul"}
    exec(compile(SMALL_MATMUL, str(path), "exec"), names)  # noqa: S102
    return lambda level: level.run(names["matmul"], request(), path, ignore)


@pytest.mark.parametrize(
    "version", ["0.11.1", "0.10.2", "0.13.0", "0.13.0.dev1", "1.0"]
)
def test_an_unknown_jax_is_refused(version, run, monkeypatch):
    monkeypatch.setattr(upstream, "jax_version", lambda: version)
    reason = "kgen knows jax >= 0.11.2 and < 0.13"
    with pytest.raises(LevelError) as caught:
        run(lower)
    assert str(caught.value) == f"not lowered on jax {version}: {reason}"
    with pytest.raises(LevelError) as caught:
        run(simulate)
    assert str(caught.value) == f"not simulated on jax {version}: {reason}"


@pytest.mark.parametrize(
    "version", ["0.11.2", "0.12.0", "0.12.0.1", "0.12.99", VERSION]
)
def test_a_known_jax_is_accepted(version, monkeypatch):
    monkeypatch.setattr(upstream, "jax_version", lambda: version)
    upstream.check_version()


def test_an_interpreter_that_has_moved_is_not_simulated(run, monkeypatch):
    monkeypatch.setattr(upstream, "INTERPRETER", "jax._src.moved")
    with pytest.raises(LevelError) as caught:
        run(simulate)
    assert str(caught.value) == (
        f"not simulated on jax {VERSION}: ModuleNotFoundError: No module named"
        " 'jax._src.moved'"
    )


def test_a_race_detector_that_tells_nothing_is_not_simulated(run, monkeypatch):
    monkeypatch.setattr(upstream.Interpreter, "reset", lambda self: None)
    interpreter = __import__("importlib").import_module(upstream.INTERPRETER)
    monkeypatch.setattr(interpreter, "get_races", object)
    with pytest.raises(LevelError) as caught:
        run(simulate)
    assert str(caught.value) == (
        f"not simulated on jax {VERSION}: the race detector has no state"
    )


def test_races_that_are_not_told_in_words_are_races(run, monkeypatch):
    monkeypatch.setattr(upstream.Interpreter, "races_found", lambda self: True)
    with pytest.raises(LevelError) as caught:
        run(simulate)
    assert str(caught.value) == (
        "at m=128, n=192, k=128 on small integers: data race; the interpreter does not"
        " say where"
    )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("_LAUNCH", "gpu.moved", "the serialised module has 0 launches"),
        ("_SMEM_GROUP", 7, "the launch names no SMEM size"),
        ("_MODULE", "moved", "KeyError: "),
    ],
)
def test_smem_that_cannot_be_read_is_a_failure(name, value, reason, run, monkeypatch):
    monkeypatch.setattr(upstream, name, value)
    with pytest.raises(LevelError) as caught:
        run(lower)
    assert str(caught.value).startswith(
        f"at m=128, n=192, k=128: SMEM size not read on jax {VERSION}: {reason}"
    )


def test_smem_is_read_from_the_lowered_kernel(tmp_path):
    names = {}
    exec(SMALL_MATMUL, names)  # noqa: S102
    operand = jax.ShapeDtypeStruct((128, 128), "float16")
    traced = jax.jit(names["matmul"]).trace(operand, operand)
    lowered = traced.lower(lowering_platforms=("cuda",))
    assert upstream.kernels_smem_bytes(lowered) == [SMALL_SMEM_BYTES]


def test_memory_is_poisoned_and_races_are_not_raised():
    params = upstream.Interpreter(7).params
    assert params.detect_races is True
    assert params.uninitialized_memory == "nan"
    assert params.out_of_bounds_reads == "raise"
    assert getattr(params, "on_race", "warn") == "warn"


def test_the_log_collects_races_and_the_first_error():
    log = upstream.InterpreterLog()
    handlers = list(logging.getLogger().handlers)
    with log.collect():
        print("RACE DETECTED\n  by print")
        logging.getLogger("jax.x").warning("RACE DETECTED\n  by a logger")
        logging.getLogger("jax.x").warning("something else")
        for error in (KeyError("first"), KeyError("second")):
            try:
                raise error
            except KeyError:
                logging.getLogger("jax.x").exception("failed")
    assert set(log.races) == {
        "RACE DETECTED\n  by print",
        "RACE DETECTED\n  by a logger",
    }
    assert log.error.args == ("first",)
    assert logging.getLogger().handlers == handlers


def test_lines_are_found_in_a_text():
    module = Path("/x/some_module.py")
    assert upstream.line_in("/x/some_module.py:58:4 (_tile)", module) == 58
    assert upstream.line_in("/y/other.py:58:4 (_tile)", module) is None
    assert upstream.source_line(None, module) is None
