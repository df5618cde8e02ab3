"""Verdicts that are remembered, and those that are not."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from oldest import newest_only
from verify_requests import request

from kgen.verify import DEFAULT_LEVELS, LevelResult, Verdict, cache, process, verify

pytestmark = newest_only

PASSED = Verdict(
    levels=tuple(
        LevelResult(level=level, status="passed", seconds=1.0)
        for level in ("import", *DEFAULT_LEVELS)
    ),
    jax_version=cache.installed("jax"),
)
FAILED = dataclasses.replace(
    PASSED, levels=(LevelResult(level="import", status="failed", detail="no"),)
)


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.DIRECTORY_VARIABLE, str(tmp_path))
    return tmp_path / "verdicts"


def entries(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.exists() else []


def test_a_passed_verdict_is_remembered(directory):
    cache.store("key", PASSED)
    assert cache.load("key") == dataclasses.replace(PASSED, remembered=True)
    assert [path.name for path in entries(directory)] == ["key.json"]


def test_a_failed_verdict_is_not_remembered(directory):
    cache.store("key", FAILED)
    assert cache.load("key") is None
    assert entries(directory) == []


def test_an_unknown_verdict_is_a_miss():
    assert cache.load("key") is None


def test_a_truncated_entry_is_a_miss_at_every_length(directory):
    cache.store("key", PASSED)
    path = directory / "key.json"
    text = path.read_text()
    for length in range(len(text)):
        path.write_text(text[:length])
        assert cache.load("key") is None


@pytest.mark.parametrize(
    "text",
    [
        b"null",
        b"[]",
        b'"verdict"',
        b"{}",
        b'{"verdict": 1}',
        b"\xff\xfe",
        b"[" * 99_999,
    ],
)
def test_a_corrupt_entry_is_a_miss(text, directory):
    directory.mkdir()
    (directory / "key.json").write_bytes(text)
    assert cache.load("key") is None


def test_an_entry_of_another_key_is_a_miss(directory):
    cache.store("key", PASSED)
    (directory / "key.json").rename(directory / "other.json")
    assert cache.load("other") is None


def test_an_entry_that_did_not_pass_is_a_miss(directory):
    cache.store("key", PASSED)
    path = directory / "key.json"
    path.write_text(path.read_text().replace("passed", "failed", 1))
    assert cache.load("key") is None


def test_a_directory_in_the_place_of_an_entry_is_a_miss(directory):
    (directory / "key.json").mkdir(parents=True)
    assert cache.load("key") is None
    cache.store("key", PASSED)
    assert [path.name for path in entries(directory)] == ["key.json"]


def test_a_cache_that_cannot_be_written_is_no_error(directory):
    directory.write_text("a file in the directory's place")
    cache.store("key", PASSED)
    assert cache.load("key") is None


def test_nothing_is_left_of_a_write_that_fails(directory, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    cache.store("key", PASSED)
    assert entries(directory) == []


def test_the_key_depends_on_everything_that_matters(monkeypatch):
    asked = request()
    keys = [
        cache.key(asked, ["lower"]),
        cache.key(asked, ["simulate"]),
        cache.key(request(source=asked.source + "\n"), ["lower"]),
        cache.key(request(out_dtype="float32"), ["lower"]),
        cache.key(request(smem_bytes=1024), ["lower"]),
    ]
    for distribution in ("jax", "jaxlib"):
        with monkeypatch.context() as patch:
            patch.setattr(
                cache,
                "installed",
                lambda name, other=distribution: "9" if name == other else "8",
            )
            keys.append(cache.key(asked, ["lower"]))
    with monkeypatch.context() as patch:
        patch.setattr(cache, "verifier_digest", lambda: "0")
        keys.append(cache.key(asked, ["lower"]))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", SimpleNamespace(major=3, minor=99))
        keys.append(cache.key(asked, ["lower"]))
    assert len(set(keys)) == len(keys)
    assert cache.key(request(), ["lower"]) == keys[0]


def test_what_decides_on_a_verdict_is_in_the_key():
    names = {path.name for path in cache.verifier_sources()}
    assert {"arch.py", "registers.py", "races.py", "walk.py"} <= names


def test_a_distribution_that_is_missing_has_no_version():
    assert cache.installed("no-such-distribution") == ""


@pytest.fixture
def runs(monkeypatch):
    """Counts the workers that `verify` would start; each passes."""
    started = []

    def run(asked, levels, timeout):
        started.append((levels, timeout))
        return PASSED

    monkeypatch.setattr(process, "run", run)
    return started


def test_the_second_verdict_is_the_remembered_one(runs):
    first, second = verify(request()), verify(request())
    assert (first.remembered, second.remembered) == (False, True)
    assert second.passed
    assert runs == [(["static", "lower", "simulate"], 120.0)]


def test_the_order_of_the_levels_does_not_matter(runs):
    verify(request(), levels=("simulate", "lower"))
    assert verify(request(), levels=("lower", "simulate")).remembered


def test_without_the_cache_nothing_is_remembered(runs, directory):
    verify(request(), cache=False)
    verify(request(), cache=False)
    assert len(runs) == 2
    assert entries(directory) == []


def test_a_verdict_of_another_jax_than_the_installed_one_is_not_kept(
    runs, directory, monkeypatch
):
    other = dataclasses.replace(PASSED, jax_version="0.0.1")
    monkeypatch.setattr(process, "run", lambda *_: other)
    assert not verify(request()).remembered
    assert entries(directory) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"levels": ("tpu",)},
            "levels must be among static, lower, simulate, gpu, got",
        ),
        ({"levels": ("lower", "lower")}, "levels must be among"),
        ({"timeout": 0}, "timeout must be positive, got 0"),
    ],
)
def test_verify_checks_its_options(options, message):
    with pytest.raises(ValueError, match=message):
        verify(request(), **options)


def test_neither_jax_nor_numpy_is_imported_for_a_remembered_verdict():
    cache.store(cache.key(request(), DEFAULT_LEVELS), PASSED)
    code = (
        "import sys; from kgen.verify import Request, verify\n"
        "asked = Request.from_json(sys.stdin.read())\n"
        "assert verify(asked).remembered\n"
        "print([name for name in ('jax', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=request().to_json(),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(cache.__file__).parents[2],
    )
    assert done.stdout == "[]\n"


HEADER = '"""Doc."""\n\n# spec {}, template matmul {},\n# text {}; verified.\n\n'
CODE = "import jax\n\n# {}\nx = 1\n"
MADE = '"""Doc."""\n\n# @generated by kgen 0.1.0; {}:\n#   kgen {}\n\n'
RENDERED, VENDORED = MADE.format("render", "render a"), MADE.format(
    "update", "vendor a"
)
A, B = "0123456789ab", "ba9876543210"


@pytest.mark.parametrize(
    ("texts", "same"),
    [
        ((HEADER.format(A, A, A) + CODE, HEADER.format(A, B, B) + CODE), True),
        ((CODE.format(A), CODE.format(B)), False),
        ((f'"""{A}"""\n' + CODE, f'"""{B}"""\n' + CODE), False),
        ((HEADER.format(A, A, A) + CODE, HEADER.format(A, A, A) + CODE[:-2]), False),
        ((RENDERED + CODE, VENDORED + CODE), True),
        ((CODE + RENDERED, CODE + VENDORED), False),
        ((RENDERED + CODE, RENDERED.replace("Doc", "doc") + CODE), False),
    ],
)
def test_only_the_code_of_a_module_counts_not_what_made_it(texts, same):
    asked = [dataclasses.replace(request(), source=text) for text in texts]
    asked += [
        dataclasses.replace(request(), beside=json.dumps({"b": text})) for text in texts
    ]
    one, other, one_beside, other_beside = (
        cache.key(each, DEFAULT_LEVELS) for each in asked
    )
    assert (one == other) == (one_beside == other_beside) == same
