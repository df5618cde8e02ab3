"""The committed kernels: what the specs say, and as a good engineer would write them."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import kgen
from tidy import loops_of_one, unused

from kgen.emit import provenance

pytestmark = pytest.mark.without_jax

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "generated"
MODULES = sorted(GENERATED.glob("*.py"))
TESTS = sorted((GENERATED / "tests").glob("*.py"))
ALLOWED = {
    "collections.abc.Callable",
    "dataclasses",
    "functools",
    "math",
    "typing.Any",
    "typing.NamedTuple",
    "jax",
    "jax.numpy",
    "jax.lax",
    "jax.experimental.pallas",
    "jax.experimental.pallas.mosaic_gpu",
    "numpy",
    "torch",
}
DISPATCH = {"matmul_h200"}
# What others call.
PUBLIC = {"reference", "matmul", "matmul_torch", "glu"}
REQUIRED = {
    "fp16_128x128",
    "bf16_128x128",
    "fp16_128x128_ws",
    "bf16_128x256_ws",
    "tf32_128x128",
    "bf16_64x64",
    "bf16_128x128_pallas_call",
    "matmul_h200",
}


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_catalogue_is_there():
    assert {path.stem for path in MODULES} >= REQUIRED
    assert {path.stem for path in TESTS} == {f"test_{path.stem}" for path in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_imports_jax_and_kernels_beside_it_alone(path):
    beside = {other.stem for other in MODULES if other != path}
    found = set(imports(ast.parse(path.read_text("utf-8"))))
    assert found <= ALLOWED | (beside if path.stem in DISPATCH else set())


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_a_test_imports_its_module_and_public_names(path):
    module = path.stem.removeprefix("test_")
    found = set(imports(ast.parse(path.read_text("utf-8"))))
    assert found <= ALLOWED | {module, "os", "pytest"}
    assert module in found


@pytest.mark.parametrize("path", MODULES + TESTS, ids=lambda path: path.stem)
def test_a_file_is_verified_and_nobody_edited_it(path):
    found = provenance.read(path.read_text("utf-8"))
    assert found is not None
    assert found.intact
    assert found.levels == ("static", "lower", "simulate")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_lines_fit_the_page(path):
    assert max(map(len, path.read_text("utf-8").splitlines())) <= 88


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_functions_fit_a_screen(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 44, node.name


@pytest.mark.parametrize("path", MODULES + TESTS, ids=lambda path: path.stem)
def test_every_name_is_used_and_every_loop_turns(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert {name for name in unused(tree) if not name.startswith("test_")} <= PUBLIC
    assert loops_of_one(tree) == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import math", {"math"}),
        ("A, B = 1, 2\nprint(B)", {"A"}),
        ("def f(): pass", {"f"}),
        ("def f(x, *, y): return x\nf(1, y=2)", {"y"}),
        ("def f(x):\n    y = x\nf(1)", {"y"}),
        ("def f():\n    def g(): pass\nf()", {"g"}),
        ("print(lambda x, _: 1)", {"x"}),
        ("@g.defjvp\ndef _(x, y): return x", set()),
        ("@g.defjvp\ndef _(x, y):\n    z = x", {"z"}),
    ],
)
def test_names_that_nothing_reads_are_seen(source, names):
    assert unused(ast.parse(source)) == names


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("for x in (1,): pass", [1]),
        ("for x in []: pass", [1]),
        ("y = 1\nz = [x for x in (1,)]", [2]),
        ("for x in (1, 2): pass", []),
        ("for x in y: pass", []),
    ],
)
def test_loops_of_one_turn_are_seen(source, lines):
    assert loops_of_one(ast.parse(source)) == lines


def test_the_committed_kernels_are_what_the_specs_say(monkeypatch):
    monkeypatch.chdir(ROOT)
    outcome = kgen("render", "--check")
    assert (outcome.exit_code, outcome.stderr) == (
        0,
        f"{len(MODULES) + len(TESTS)} files up to date.\n",
    )


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of specs and kernels, as the current directory."""
    for name in ("specs", "generated"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_changed_byte_of_a_module_is_found(copy):
    path = copy / "generated" / "fp16_128x128.py"
    path.write_bytes(path.read_bytes().replace(b"Computes", b"computes"))
    outcome = kgen("render", "--check")
    assert outcome.exit_code == 1
    assert "edited generated/fp16_128x128.py" in outcome.stderr


def test_a_changed_byte_of_a_template_is_found(copy, monkeypatch):
    templates = copy / "templates"
    shutil.copytree(ROOT / "templates", templates)
    path = templates / "partials" / "store_pieces.jinja"
    path.write_text(path.read_text().replace("must see", "has to see"))
    monkeypatch.setattr("kgen.emit.render.templates_dir", lambda: templates)
    outcome = kgen("render", "--check", "-j", "1", "specs/fp16_128x128.toml")
    assert outcome.exit_code == 1
    assert "differs generated/fp16_128x128.py" in outcome.stderr


def test_the_bytes_are_the_same_anywhere(tmp_path):
    """In another directory, locale, time zone, hash seed and with other settings."""
    specs = tmp_path / "a place" / "specs"
    shutil.copytree(ROOT / "specs", specs)
    (tmp_path / "a place" / "pyproject.toml").write_text(
        "[tool.black]\nline-length = 40\n"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "4711",
        "LC_ALL": "C",
        "TZ": "Asia/Tokyo",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
    }
    command = [sys.executable, "-m", "kgen", "render", "specs", "--check", "-j", "1"]
    out = ["--out", str(GENERATED)]
    done = subprocess.run(
        [*command, *out],
        cwd=specs.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
