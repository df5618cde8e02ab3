"""The script that measures a list of kernels, and the tables made of what it writes."""

import importlib.util
import json
import math
import shutil
import sys
from pathlib import Path

import pytest
from measure_stand_ins import SESSION, write_module
from oldest import newest_only

from kgen.code import code_digest
from kgen.measure import bench, files, sweep
from kgen.verify.request import LevelResult, Verdict

pytestmark = newest_only

TESTS = Path(__file__).parents[1]
BENCHMARKS = TESTS.parent / "benchmarks"
GENERATED = TESTS.parent / "generated"
PASSED = Verdict(
    levels=(
        LevelResult(level="import", status="passed"),
        LevelResult(level="gpu", status="passed"),
    ),
    jax_version="",
)


def script(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def measure(tmp_path, monkeypatch, capsys):
    """Runs the script where a CPU stands in for the GPU; returns its exit code."""
    monkeypatch.setattr(bench, "SESSION", SESSION)
    monkeypatch.setattr(bench, "verify", lambda *_, **__: PASSED)
    monkeypatch.setattr(sweep, "run", lambda *_, **__: sweep.Sweep(detail="no time"))
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.chdir(tmp_path)
    module = script("h200")

    def run(pairs, *options):
        Path("list.json").write_text(json.dumps(pairs))
        arguments = ["h200.py", "list.json", "--out", "out.json", "--rounds", "3"]
        monkeypatch.setattr(sys, "argv", [*arguments, *options])
        return module.main(), capsys.readouterr().out

    return run


def test_pairs_are_measured_and_kept(tmp_path, measure):
    write_module(tmp_path)
    write_module(tmp_path, "wrong", body="product += 1")
    pairs = [["made_up.py", [128, 64, 32]], ["wrong.py", [64, 64, 32]]]
    code, out = measure(pairs)
    assert code == 1
    assert "0 kept, 2 measured, 0 not for want of time" in out
    assert "wrong at 64,64,32: wrong: on small integers: " in out
    document = files.load(Path("out.json"))
    first, second = document.results
    assert [peer.name for peer in first.peers] == ["xla", "jax-example"]
    assert first.peers[0].ratio > 0
    assert first.peers[1].detail == "no time"
    assert first.verification == PASSED.levels
    assert second.status == "wrong"

    # What is right is not measured again, what was not and has changed is.
    write_module(tmp_path, "wrong")
    code, out = measure(pairs, "--resume")
    assert code == 0
    assert "1 kept, 1 measured, 0 not for want of time" in out
    again = files.load(Path("out.json"))
    assert again.results[0] == first
    assert [(r.name, r.status) for r in again.results] == [
        ("made_up", "measured"),
        ("wrong", "measured"),
    ]

    # Of other software, results are not put into the same file.
    value = json.loads(Path("out.json").read_text())
    value["machine"]["driver"] = "1"
    Path("out.json").write_text(json.dumps(value))
    with pytest.raises(SystemExit, match="cannot be in one file"):
        measure(pairs, "--resume")


def test_what_there_is_no_time_for_is_told(tmp_path, measure):
    write_module(tmp_path)
    code, out = measure([["made_up.py", [128, 64, 32]]], "--budget", "1")
    assert code == 1
    assert out == "0 kept, 0 measured, 1 not for want of time\n"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([["made_up.py"]], "list.json is no list of "),
        ({"a": 1}, "list.json is no list of "),
        ([["made_up.py", [64, 64]]], "error: --shape '64,64' is not three sizes"),
        ([["missing.py", [64, 64, 64]]], "error: missing.py cannot be read: No such"),
    ],
)
def test_lists_that_are_none(tmp_path, measure, pairs, message):
    write_module(tmp_path)
    with pytest.raises(SystemExit) as error:
        measure(pairs)
    assert str(error.value).startswith(message)


def timing(us):
    return {
        "us": [us],
        "median_us": us,
        "spread": 0.0,
        "tflops": 800.0,
        "tb_per_s": 0.5,
        "roofline": 0.81,
    }


def peer(name, ratio):
    known = timing(10.0) if ratio else None
    fields = {"configuration": "", "detail": "" if ratio else "none", "tried": []}
    return {"name": name, "ratio": ratio, "timing": known, **fields}


def record(name, shape, *, us, xla, example=None):
    passed = {"level": "gpu", "status": "passed", "detail": "", "seconds": 1.0}
    return {
        "target": f"generated/{name}.py",
        "name": name,
        "path": f"generated/{name}.py",
        "shape": shape,
        "layout": "nn",
        "operand_dtype": "bfloat16",
        "out_dtype": "bfloat16",
        "arch": "sm_90a",
        "source_digest": "",
        "spec_digest": "",
        "text_digest": "",
        "status": "measured" if us else "wrong",
        "detail": "",
        "checks": [],
        "verification": [{**passed, "notes": []}] if us else [],
        "registers": None,
        "spilled_bytes": None,
        "notes": [],
        "timing": timing(us) if us else None,
        "peers": [peer("xla", xla), peer("jax-example", example)] if us else [],
    }


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Lets the report read and write copies; returns its module."""
    module = script("report")
    here = tmp_path / "benchmarks"
    here.mkdir()
    shutil.copytree(BENCHMARKS / "results", here / "results")
    (here / "results" / "h200.json").unlink(missing_ok=True)
    monkeypatch.setattr(module.result_files, "RESULTS", here / "results")
    monkeypatch.setattr(module, "PAGE", here / "README.md")
    monkeypatch.setattr(module, "README", tmp_path / "README.md")
    tmp_path.joinpath("README.md").write_text(
        "# kgen\n\n<!-- h200 -->\nold\n<!-- /h200 -->\n\nmore\n"
        "<!-- proof -->\n46 of 48\n<!-- /proof -->\n"
    )
    return module


def call(module, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["report.py", *arguments])
    return module.main()


def test_the_tables_come_from_the_results(report, monkeypatch, capsys):
    assert call(report, monkeypatch) == 0
    before = report.README.read_text()
    assert "old" in before
    assert "Tuned kernels" not in report.PAGE.read_text()
    value = {
        "kind": "kgen bench",
        "format": 1,
        "kgen": "0.1.0",
        "machine": {
            "device": "NVIDIA H200",
            "compute_capability": "9.0",
            "driver": "580.1",
            "cuda": "13.0",
            "jax": "0.11.2",
        },
        "rounds": 10,
        "results": [
            record("big", [4096, 8192, 4096], us=341.25, xla=1.02, example=1.5),
            record("skinny", [16, 8192, 8192], us=35.0, xla=0.98),
            record("bad", [64, 64, 64], us=None, xla=None),
        ],
    }
    # One of them is of another run.
    value["results"][1]["timing"]["us"] = [35.0] * 3
    files.parse(value, "made up")
    report.result_files.RESULTS.joinpath("h200.json").write_text(json.dumps(value))
    assert call(report, monkeypatch, "--check") == 1
    assert capsys.readouterr().out == (
        "benchmarks/README.md differs; run python benchmarks/report.py\n"
        "README.md differs; run python benchmarks/report.py\n"
    )
    assert call(report, monkeypatch) == 0
    assert call(report, monkeypatch, "--check") == 0
    text = report.README.read_text()
    assert text.startswith("# kgen\n\n<!-- h200 -->\nOne NVIDIA H200, JAX 0.11.2, ")
    assert "\n<!-- /h200 -->\n\nmore\n<!-- proof -->\n" in text
    assert "\nold\n" not in text
    assert (
        "| 4096 x 8192 x 4096 | [big](generated/big.py) (no longer there) | 341.2 | 800"
        " | 0.50 | 81% | 1.020 | 1.500 |\n"
    ) in text
    bad = "| 64 x 64 x 64 | [bad](generated/bad.py) (no longer there) | **wrong** |  |"
    assert bad in text
    assert " | 0.980 | not measured |\n" in text
    assert "2 of 3 passed `kgen verify --level gpu` in the run\nthat measured" in text
    assert "medians of 1 or 3 rounds in turns" in text
    assert "The code of 0 of 3 is the one that\nis committed" in text
    mean = math.sqrt(1.02 * 0.98)
    assert (
        f"Geometric means: {mean:.3f} over xla (2 shapes), 1.500 over jax-example (1"
        " shapes)."
    ) in text
    page = report.PAGE.read_text()
    assert "## Tuned kernels" in page
    assert "[big](../generated/big.py)" in page


def test_what_stands_beside_jax_s_example_is_told_to_be_of_another_text(report):
    kernel_times = sys.modules["kernel_times"]
    path = report.result_files.RESULTS / "h200_jax_example.json"
    found = json.loads(path.read_text())["results"]
    measured = next(each for each in found if each["example_ratio"])
    ratio = f"{measured['example_ratio']:.3f}"
    assert kernel_times.beside_example(measured) == ratio
    edited = {**measured, "source_digest": "of another text"}
    assert kernel_times.beside_example(edited) == f"{ratio} (an earlier text)"
    assert kernel_times.beside_example({**edited, "name": "unknown"}) is None


def test_the_readme_tells_how_much_was_right_on_a_gpu(report, monkeypatch):
    path = report.result_files.RESULTS / "gpu_proof.json"
    document = json.loads(path.read_text())
    total = len(document["modules"])
    for module in document["modules"]:
        text = (GENERATED / f"{module['name']}.py").read_text("utf-8")
        module["source_digest"] = code_digest(text)
    for module in document["modules"][:2]:
        module["right"] = False
    document["modules"][2]["source_digest"] = "of an earlier text"
    path.write_text(json.dumps(document))
    assert call(report, monkeypatch) == 0
    text = report.README.read_text()
    assert "46 of 48\n<!-- /proof" not in text
    assert f"{total - 2} of {total} modules were right. The code of\n" in text
    assert f"\n{total - 1} of {total} is the one that is committed.\n" in text


def test_a_readme_without_the_section_is_told(report, monkeypatch):
    report.README.write_text("# kgen\n")
    report.result_files.RESULTS.joinpath("h200.json").write_text(
        json.dumps(
            {
                "machine": dict.fromkeys(("device", "jax", "cuda", "driver"), "x"),
                "rounds": 3,
                "results": [],
            }
        )
    )
    with pytest.raises(SystemExit, match=r"README\.md needs one section"):
        call(report, monkeypatch)
