"""kgen from a built wheel, in an empty directory, brings templates and specs along."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from oldest import newest_only

pytestmark = newest_only

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory with the unpacked wheel; its dependencies are those of the tests."""
    directory = tmp_path_factory.mktemp("wheel")
    build = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wheel = directory / done.stdout.split()[-1]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory / "site")
    return directory / "site"


def test_it_renders_in_an_empty_directory(installed, tmp_path):
    program = (
        "import sys, kgen; assert 'site' in kgen.__file__, kgen.__file__\n"
        "from kgen.cli import main; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", program, "render", "specs/fp16_128x128.toml"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = tmp_path / "generated" / "fp16_128x128.py"
    assert made.read_bytes() == (ROOT / "generated" / "fp16_128x128.py").read_bytes()


def test_it_holds_what_it_needs_and_no_tests(installed):
    assert (installed / "kgen" / "_data" / "templates" / "matmul.py.jinja").is_file()
    assert (installed / "kgen" / "_data" / "specs" / "kgen.schema.json").is_file()
    assert (installed / "kgen" / "py.typed").is_file()
    assert not list(installed.glob("tests"))
