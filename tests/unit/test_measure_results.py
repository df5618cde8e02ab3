"""Results as values and as JSON, what changed between two, tables and drawings."""

import copy
import dataclasses
import json
import subprocess
import sys
from xml.etree import ElementTree

import jsonschema
import pytest
from commands import kgen

from kgen.errors import FileError, UsageError
from kgen.measure import compare, files, plot, results, tables
from kgen.measure.files import ResultFileError
from kgen.measure.problem import Problem
from kgen.measure.results import Document, Machine, Peer, Record
from kgen.measure.timing import Samples
from kgen.tables import plain_text
from kgen.verify.request import LevelResult

MACHINE = Machine(
    device="NVIDIA H200",
    compute_capability="9.0",
    driver="580.1",
    cuda="13.0",
    jax="0.11.2",
)
SHAPE = (4096, 8192, 4096)
PROBLEM = Problem(shape=SHAPE, operand_dtype="bfloat16", out_dtype="bfloat16")


def timing(*us, device=MACHINE.device, problem=PROBLEM):
    return results.timing_of(Samples(us=us), problem, "sm_90a", device)


def record(*us, name="fast", peers=(), **changes):
    fields = {
        "target": f"generated/{name}.py",
        "name": name,
        "path": f"generated/{name}.py",
        "shape": SHAPE,
        "layout": "nn",
        "operand_dtype": "bfloat16",
        "out_dtype": "bfloat16",
        "arch": "sm_90a",
        "source_digest": "0" * 12,
        "spec_digest": "1" * 12,
        "text_digest": "2" * 12,
        "status": "measured" if us else "failed",
        "detail": "",
        "checks": ("small integers",),
        "verification": (LevelResult(level="gpu", status="passed", notes=("x",)),),
        "registers": 168,
        "spilled_bytes": 0,
        "notes": (),
        "timing": timing(*us) if us else None,
        "peers": tuple(peers),
    }
    return Record(**(fields | changes))


def peer(*us, ratio, name="xla", **changes):
    fields = {"configuration": "", "detail": "", "tried": ()} | changes
    return Peer(name=name, timing=timing(*us), ratio=ratio, **fields)


def document(*records, **changes):
    fields = {"kind": "kgen bench", "format": 1, "kgen": "0.1.0", "machine": MACHINE}
    fields |= {"rounds": 3, "results": records}
    return Document(**(fields | changes))


FULL = document(
    record(342.0, 343.0, 341.0, peers=[peer(341.0, 341.5, 341.2, ratio=0.998)]),
    record(name="broken", detail="no result within 300 s", timing=None),
)


def test_figures_of_a_product():
    found = timing(340.0, 342.0, 341.0)
    assert found.median_us == 341.0
    assert found.spread == pytest.approx(0.5 / 341, abs=1e-6)
    assert found.tflops == pytest.approx(
        2 * 4096 * 8192 * 4096 / 341e-6 / 1e12, abs=0.01
    )
    moved = 2 * (4096 * 4096 + 4096 * 8192 + 4096 * 8192)
    assert found.tb_per_s == pytest.approx(moved / 341e-6 / 1e12, abs=1e-4)
    assert found.roofline == pytest.approx(277.9 / 341, abs=1e-3)
    assert timing(341.0, device="NVIDIA H100").roofline is None


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "new.json"
    files.save(FULL, path)
    assert files.load(path) == FULL
    assert [p.name for p in tmp_path.iterdir()] == ["new.json"]
    # In place of a file that was there.
    files.save(document(), path)
    assert files.load(path) == document()


@pytest.mark.parametrize("text", ['{"mine": 1}', "notes\n", "[]"])
def test_a_file_of_somebody_else_is_not_replaced(tmp_path, text):
    mine, link = tmp_path / "mine.json", tmp_path / "link.json"
    mine.write_text(text, "utf-8")
    link.symlink_to(mine)
    for path in (mine, link):
        with pytest.raises(FileError) as error:
            files.save(FULL, path)
        assert str(error.value) == (
            f"{path} was not written by `kgen bench --json`\n"
            "  hint: name another file, or remove that one"
        )
        done = kgen("bench", "k.py", "--shape", "64,64,64", "--json", path)
        assert (done.exit_code, str(error.value) in done.stderr) == (5, True)
    assert mine.read_text("utf-8") == text
    assert sorted(tmp_path.iterdir()) == [link, mine]


def test_results_are_replaced_where_a_link_leads(tmp_path):
    old, link = tmp_path / "old.json", tmp_path / "link.json"
    files.save(document(), old)
    link.symlink_to(old)
    files.save(FULL, link)
    assert link.is_symlink()
    assert files.load(old) == FULL


def test_drawings_of_somebody_else_are_not_replaced(tmp_path):
    mine = tmp_path / "ratios.svg"
    mine.write_text("<svg/>", "utf-8")
    with pytest.raises(FileError, match="was not written by `kgen bench --plot`"):
        plot.write_plots(FULL, tmp_path)
    assert (mine.read_text("utf-8"), len([*tmp_path.iterdir()])) == ("<svg/>", 1)
    done = kgen("bench", "k.py", "--shape", "64,64,64", "--plot", tmp_path)
    assert (done.exit_code, f"{mine} was not written" in done.stderr) == (5, True)
    mine.unlink()
    plot.write_plots(FULL, tmp_path)
    plot.write_plots(document(), tmp_path)  # Its own ones are.


def test_what_cannot_be_written_is_told(tmp_path):
    with pytest.raises(
        ResultFileError, match=r"new.json cannot be written: No such file"
    ):
        files.save(FULL, tmp_path / "missing" / "new.json")


def test_json_is_as_the_schema_says():
    schema = json.loads(results.schema_text())
    value = json.loads(FULL.to_json())
    jsonschema.validate(value, schema)
    del value["results"][0]["timing"]["us"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema)


def changed(**at):
    value = json.loads(FULL.to_json())
    for path, new in at.items():
        *way, last = path.split("__")
        place = value
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        if new is KeyError:
            del place[last]
        else:
            place[last] = new
    return value


CORRUPT = "\n  hint: the file is corrupt or was edited; measure again"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {},
            "F holds no results of kgen bench: its \"kind\" is not 'kgen bench', found",
        ),
        ([1], "found 'list'\n  allowed: a file that `kgen bench --json FILE` wrote"),
        (
            changed(format=2, kgen="0.9"),
            "F: format 2 is of a newer kgen (kgen 0.9)\n  allowed: format 1\n"
            "  hint: update kgen, or measure again",
        ),
        (
            changed(results__0__timing__us=[342.0, "x", 341.0]),
            "F: results[0].timing.us[1]: expected a number, found 'x'" + CORRUPT,
        ),
        (changed(machine__driver=KeyError), "F: machine.driver: is missing" + CORRUPT),
        (changed(machine__fan="x"), "F: machine.fan: is not known" + CORRUPT),
        (changed(rounds=True), "F: rounds: expected an integer, found True" + CORRUPT),
        (changed(results={}), "F: results: expected a list, found {}" + CORRUPT),
        (changed(results__0__peers=[3]), "results[0].peers[0]: expected an object"),
        (changed(results__0__shape=[1, 2]), "results[0]: shape must be three positive"),
        (
            changed(results__0__timing=None),
            "results[0]: a kernel that is measured must",
        ),
        (changed(results__0__status="fine"), "results[0]: status must be one of"),
        (
            changed(results__0__layout="tx"),
            "results[0]: layout must be one of nn, nt, tn, tt",
        ),
        (changed(results__0__arch="sm_1"), "results[0]: arch must be one of sm_90a"),
        (
            changed(results__0__operand_dtype="int8"),
            "results[0]: operand_dtype must be one of float16, bfloat16, float32",
        ),
        (
            changed(results__0__timing__median_us=300.0),
            "F: results[0].timing.median_us: 300.0 is not the median of the rounds, which"
            " is 342.0000" + CORRUPT,
        ),
        (
            changed(results__0__peers__0__timing__us=[]),
            "F: results[0].peers[0].timing.us: expected positive times" + CORRUPT,
        ),
        (changed(results__0__timing__us=[10**400]), "expected a number, found 1000"),
        (
            changed(results__0__timing__spread=0.5),
            "F: results[0].timing.spread: 0.5 is not that of the rounds, which is 0.0014",
        ),
        (changed(format=0), "F holds no results of kgen bench: there is no format 0"),
        (
            changed(machine__device="\x1b[31mH200"),
            "F: machine: device must be printable, got '\\x1b[31mH200'" + CORRUPT,
        ),
        (changed(kgen="\x1b[1m"), "F: the document: kgen must be printable"),
    ],
)
def test_what_is_no_result_is_told_with_its_place(value, message):
    with pytest.raises(ResultFileError) as error:
        files.parse(value, "F")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "it is not UTF-8 text"),
        (b'{"kind": "kgen bench",', "it is not JSON: "),
        (b'{"kind": NaN}', "it is not JSON: NaN is no number"),
        (b"[" * 100_000, "it is not JSON: "),
        (None, "old.json cannot be read: No such file or directory"),
    ],
)
def test_files_that_are_none(tmp_path, content, message):
    path = tmp_path / "old.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ResultFileError) as error:
        files.load(path)
    assert message in str(error.value)
    assert error.value.exit_code == 5


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        # Nothing of the rounds differs, but by less than two runs do.
        ((100.0,) * 3, (100.5,) * 3, "same"),
        ((100.0,) * 3, (100.6,) * 3, "slower"),
        ((100.0,) * 3, (99.4,) * 3, "faster"),
        # Half the interquartile range is 2 and 1.
        (
            (98.0, 96.0, 100.0, 102.0, 104.0),
            (102.9, 101.0, 103.9, 104.9, 101.9),
            "same",
        ),
        (
            (98.0, 96.0, 100.0, 102.0, 104.0),
            (104.1, 102.1, 105.1, 103.1, 106),
            "slower",
        ),
        ((98.0, 96.0, 100.0, 102.0, 104.0), (95.9, 94.9, 96.9, 93.9, 97.9), "faster"),
    ],
)
def test_a_change_counts_beyond_the_noise_of_both(before, now, verdict):
    assert compare.verdict(timing(*before), timing(*now)) == verdict


def test_everything_of_either_run_is_compared():
    before = document(
        record(100.0, name="slower", peers=[peer(90.0, ratio=0.9)]),
        record(100.0, name="same"),
        record(100.0, name="gone"),
        record(100.0, name="broken"),
        record(name="mended"),
        record(name="never"),
    )
    now = document(
        record(110.0, name="slower", source_digest="x", peers=[peer(99.0, ratio=0.9)]),
        record(100.0, name="same"),
        record(name="broken", status="wrong", detail="all zero"),
        record(100.0, name="mended"),
        record(name="never"),
        record(100.0, name="new"),
        record(100.0, name="same", shape=(64, 64, 64)),
    )
    found = compare.compare(before, now)
    assert [(c.name, c.verdict, c.is_bad) for c in found] == [
        ("slower", "slower", True),
        ("same", "same", False),
        ("gone", "not measured now", False),
        ("broken", "no longer measured", True),
        ("mended", "measured again", False),
        ("never", "never measured", False),
        ("new", "not measured before", False),
        ("same", "not measured before", False),
    ]
    assert found[0].share == pytest.approx(0.1)
    assert found[0].peers == (("xla", pytest.approx(0.1)),)
    assert found[0].remark == "another text"
    assert found[3].remark == "wrong: all zero"


def test_times_of_other_gpus_are_not_compared():
    other = dataclasses.replace(MACHINE, device="NVIDIA H100")
    with pytest.raises(UsageError) as error:
        compare.check_machines(FULL, document(machine=other), ("old.json", "this run"))
    assert str(error.value) == (
        "times of different GPUs cannot be compared: old.json is of a NVIDIA H200 (9.0),"
        " this run of a NVIDIA H100 (9.0)\n  hint: measure again on a NVIDIA H200"
    )


def test_other_software_is_told():
    machine = dataclasses.replace(MACHINE, driver="590.0", jax="0.12.0")
    after = document(machine=machine, kgen="0.2.0")
    assert compare.remarks(FULL, after) == [
        "driver 580.1 before, 590.0 now",
        "jax 0.11.2 before, 0.12.0 now",
        "kgen 0.1.0 before, 0.2.0 now",
    ]
    assert compare.remarks(FULL, FULL) == []


def test_the_table_of_results():
    text = plain_text(tables.results_table(FULL))
    head, names, fast, broken, *_ = text.splitlines()
    assert head == "NVIDIA H200, driver 580.1, CUDA 13.0, jax 0.11.2; 3 rounds"
    assert names.split() == (
        [
            "kernel",
            "m,n,k",
            "us",
            "+-",
            "TFLOP/s",
            "TB/s",
            "roofline",
            "xla",
            "/",
            "ours",
        ]
    )
    assert fast.split() == (
        ["fast", "4096,8192,4096", "342.0", "0.1%", "804", "0.49", "81%", "0.998"]
    )
    assert broken.split() == ["broken", "4096,8192,4096", "FAILED"]


def test_what_the_table_has_no_room_for():
    torch = Peer(
        name="torch",
        timing=None,
        ratio=None,
        configuration="",
        detail="PyTorch 2 sees no GPU",
        tried=(),
    )
    first, second = FULL.results
    first = dataclasses.replace(first, peers=(*first.peers, torch), notes=("spills",))
    assert tables.notes(document(first, second)) == [
        "generated/fast.py at 4096,8192,4096: spills",
        "generated/fast.py at 4096,8192,4096: torch not measured: PyTorch 2 sees no GPU",
        "generated/broken.py at 4096,8192,4096: failed: no result within 300 s",
    ]


def test_the_table_of_changes():
    before = document(record(100.0, peers=[peer(90.0, ratio=0.9)]))
    now = document(record(110.0, peers=[peer(90.9, ratio=0.9)]), record(9.0, name="b"))
    text = plain_text(tables.changes_table(compare.compare(before, now)))
    names, changed, other, *_ = text.splitlines()
    assert names.split() == [
        "kernel",
        "m,n,k",
        "before",
        "us",
        "now",
        "us",
        "change",
        "noise",
        "xla",
    ]
    assert changed.split() == (
        [
            "fast",
            "4096,8192,4096",
            "100.0",
            "110.0",
            "+10.0%",
            "0.5%",
            "+1.0%",
            "slower",
        ]
    )
    assert other.split() == ["b", "4096,8192,4096", "9.0", "not", "measured", "before"]


NAMESPACE = "{http://www.w3.org/2000/svg}"


def parsed(text):
    return ElementTree.fromstring(text)  # noqa: S314


def numbers(element, *names):
    return [float(element.get(name)) for name in names]


def test_drawings_are_well_formed_and_the_same_every_time():
    small = dataclasses.replace(PROBLEM, shape=(16, 8192, 8192))
    memory_bound = record(
        35.0,
        name="<skinny> & small",
        shape=small.shape,
        timing=timing(35.0, problem=small),
        peers=[peer(35.2, ratio=1.006), peer(70.0, name="torch", ratio=2.0)],
    )
    drawn = document(*FULL.results, memory_bound)
    for draw in (plot.roofline_svg, plot.ratios_svg):
        text = draw(drawn)
        assert text == draw(copy.deepcopy(drawn))
        assert "prefers-color-scheme: dark" in text
        root = parsed(text)
        width, height = numbers(root, "width", "height")
        for circle in root.iter(f"{NAMESPACE}circle"):
            x, y = numbers(circle, "cx", "cy")
            assert 0 < x < width
            assert 0 < y < height
        for bar in root.iter(f"{NAMESPACE}rect"):
            x, y, w, h = numbers(bar, "x", "y", "width", "height")
            assert x + w < width
            assert y + h < height


def test_a_rate_that_is_nothing_in_the_results_is_drawn():
    tiny = dataclasses.replace(PROBLEM, shape=(64, 64, 64))
    slow = record(900.0, shape=tiny.shape, timing=timing(900.0, problem=tiny))
    assert slow.timing.tflops == 0.0
    root = parsed(plot.roofline_svg(document(*FULL.results, slow)))
    (height,) = numbers(root, "height")
    lowest = max(numbers(c, "cy")[0] for c in root.iter(f"{NAMESPACE}circle"))
    assert lowest < height


def test_drawings_that_cannot_be_written(tmp_path):
    tmp_path.joinpath("file").touch()
    with pytest.raises(FileError, match="file/x: a file stands where a directory"):
        plot.write_plots(FULL, tmp_path / "file" / "x")


def test_points_lie_below_the_roof_and_bars_are_as_long_as_ratios():
    root = parsed(plot.roofline_svg(FULL))
    (circle,) = root.iter(f"{NAMESPACE}circle")
    (roof,) = root.iter(f"{NAMESPACE}polyline")
    assert circle[0].text == "fast at 4096,8192,4096: 804 TFLOP/s"
    *_, (x, y) = [list(map(float, p.split(","))) for p in roof.get("points").split()]
    cx, cy = numbers(circle, "cx", "cy")
    assert cx < x
    assert cy > y
    ratios = plot.ratios_svg(
        document(
            record(1.0, peers=[peer(1.0, ratio=1.0), peer(2.0, name="t", ratio=2.0)])
        )
    )
    bars = [
        float(rect.get("width"))
        for rect in parsed(ratios).iter(f"{NAMESPACE}rect")
        if rect.get("height") != "10"
    ]
    assert bars[1] == pytest.approx(2 * bars[0], abs=0.2)


def test_dtypes_with_the_same_peak_share_a_roof():
    half = record(1.0, operand_dtype="float16")
    single = record(1.0, operand_dtype="float32")
    text = plot.roofline_svg(document(*FULL.results, half, single))
    assert ">bfloat16, float16, NVIDIA H200: 989 TFLOP/s<" in text
    assert ">float32, NVIDIA H200: 494 TFLOP/s<" in text
    assert text.count("<polyline") == 2


def test_nothing_to_draw_is_drawn():
    for draw in (plot.roofline_svg, plot.ratios_svg):
        parsed(draw(document()))
        parsed(draw(document(FULL.results[1])))


def test_results_are_compared_without_importing_jax(tmp_path):
    path = tmp_path / "old.json"
    files.save(FULL, path)
    script = (
        "import sys\nfrom kgen.cli import cli\n"
        f"code = cli.main(['bench', '--compare', {str(path)!r}, {str(path)!r}],"
        " standalone_mode=False)\n"
        "assert code == 0, code\n"
        "assert not {'jax', 'pydantic', 'black', 'platformdirs'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_schema_is_printed():
    done = kgen("schema", "bench")
    assert (done.exit_code, done.stdout) == (0, results.schema_text())
    done = kgen("schema", "bench", "--op", "matmul")
    assert done.exit_code == 2
    assert "--op goes with the schema of a spec." in done.stderr
