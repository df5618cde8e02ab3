"""Runs kernels of tests in the simulator, in this process, with text replaced."""

import importlib.util
import linecache
from pathlib import Path

import pytest
import verify_requests

from kgen.verify import simulate
from kgen.verify.explain import LevelError

TESTS = Path(__file__).parent
DIRECTORIES = (TESTS / "execution" / "kernels", TESTS.parent / "generated")


SIZES = ((64, 64, 320),)


def run(directory, kernel, *replacements, sizes=SIZES):
    """Simulates a kernel.

    Args:
      directory: Where the kernel with the text replaced goes.
      kernel: Name of a file among the tests' kernels or the generated modules.
      replacements: Pairs of old and new text.
      sizes: Of the matmul, (m, n, k).
    """
    files = [path / f"{kernel}.py" for path in DIRECTORIES]
    source = next(f for f in files if f.exists()).read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in source, old
        source = source.replace(old, new)
    path = directory / f"{kernel}.py"
    path.write_text(source, encoding="utf-8")
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(kernel, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    request = verify_requests.request(source, sizes)
    simulate.run(module.matmul, request, path, lambda _: None)


def failure(directory, kernel, *replacements, sizes=SIZES):
    """Simulates a kernel and returns what it fails by, without the size."""
    with pytest.raises(LevelError) as error:
        run(directory, kernel, *replacements, sizes=sizes)
    return str(error.value).partition("small integers: ")[2]


def line_of(directory, kernel, text):
    """Returns `kernel.py:line: text` of the first line that contains `text`."""
    lines = (directory / f"{kernel}.py").read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines, 1) if text in line)
    return f"{kernel}.py:{number}: {lines[number - 1].strip()}"
