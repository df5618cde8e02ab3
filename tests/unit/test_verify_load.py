"""How a module is imported to be verified."""

import os
import py_compile
import sys

from oldest import newest_only

from kgen.verify.worker import load

pytestmark = newest_only


def test_a_text_of_the_same_second_and_size_is_another(tmp_path, monkeypatch):
    name = "of_the_same_second"
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / f"{name}.py"
    path.write_text("TILE = 64\n")
    before = path.stat()
    first = load(name, path).TILE
    # As pytest or an import of the user's own would have left it.
    py_compile.compile(str(path))
    path.write_text("TILE = 32\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (first, load(name, path).TILE) == (64, 32)
    del sys.modules[name]
