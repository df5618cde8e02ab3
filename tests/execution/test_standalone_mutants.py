"""Standalone tests fail when their kernel is broken, and say how it looks.

Faults of asynchronous wgmma are left out: JAX's own interpreter, which is all that a
standalone test has on a CPU, does not see them.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made import plan
from mutants import catalogue
from mutants.bases import RENDERED
from oldest import newest_only

from kgen.emit.render import render

pytestmark = newest_only

# The mutant, and what one of its failures must say.
BROKEN = {
    "pipelined__one_step_less": "a K tail, the last 64 of k are left out, in every tile",
    "pipelined__last_bit_lost": "rounding, by a cast too early or a narrow accumulator",
    "pipelined_pieces__piece_lost": "rows 0 to 63 and columns 96 to 127 of a tile",
    "warp_specialized__output_block_lost": "in one tile, [0:128, 64:128], the whole tile",
    "warp_specialized__warpgroup_slices_equal": "other operands, indices or steps than"
    " meant, in every tile, rows 64 to 127 and columns 0 to 63 of a tile",
    "pallas_call__last_column_of_tiles_lost": "memory that was never written, in the"
    " last column of tiles, [:, 384:], the whole tile",
    "pallas_call__index_map_of_the_wrong_step": "other operands, indices or steps than"
    " meant, in every tile, the whole tile",
}
# Without the refusals, and without the size of seven tiles along m.
SELECTED = "on_integers and not 448-192 and not 896- or on_normal"


def base_of(name):
    return name.partition("__")[0]


@pytest.fixture(scope="module")
def failures(tmp_path_factory, worker_id):
    """The texts of the failed tests of every kernel, all run at once, and once only."""
    base = tmp_path_factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / "standalone_mutants"
    directory.mkdir(exist_ok=True)
    report = directory / "report.xml"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not report.exists():
            run_all(directory, report)
    return texts_of_failures(report)


def run_all(directory, report):
    for name in BROKEN:
        kernel, tables, _ = RENDERED[base_of(name)]
        rendered = render(
            plan(directory, f"[kernel]\n{kernel}{tables}", name), verified=False
        )
        (directory / f"{name}.py").write_text(catalogue.mutant(name).source, "utf-8")
        test = directory / f"test_{name}.py"
        test.write_text(rendered.test_source, "utf-8")
    options = [
        "-q",
        "-n2",
        "-k",
        SELECTED,
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    environment = {key: v for key, v in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "."],
        cwd=directory,
        env={**environment, "PYTHONPATH": ".", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        check=False,
    )


def texts_of_failures(report: Path) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {name: [] for name in BROKEN}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314
        module = case.get("classname", "").rpartition("test_")[2]
        texts[module] += [each.text or "" for each in case.findall("failure")]
        assert case.find("error") is None
    return texts


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_fails_and_tells_the_likely_cause(failures, name):
    assert any(BROKEN[name] in text for text in failures[name]), failures[name]


def test_a_failure_names_shape_and_element_and_by_how_much(failures):
    text = (
        "m=128, n=192, k=448: 8192 of 24576 elements are wrong\n"
        "the worst is [0, 64]: got nan, expected 81, off by nan where 0 is allowed\n"
        "likely cause: memory that was never written, in one tile, [0:128, 64:128], the"
        " whole tile"
    )
    assert text in failures["warp_specialized__output_block_lost"]
