"""What the scripts that need a GPU do beside running kernels there."""

import importlib
import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from kgen.code import code_digest
from kgen.emit.render import template_digest
from kgen.errors import KgenError
from kgen.targets import find_targets
from kgen.targets.asked import Asked

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "generated" / "fp16_128x128.py"


@pytest.fixture
def script(monkeypatch):
    """Imports a script of benchmarks/, which import each other by name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


def counted(name, ctas, threads=384):
    return {"kernel": name, "launch__grid_size": ctas, "launch__block_size": threads}


def test_counted_kernels_are_those_before_a_mark(script):
    mark = counted("add", 1, 128)
    kernels = [counted("ours", 132), mark, counted("a", 90), counted("b", 7), mark]
    found = script("counters").parts(kernels, ["kernel", "xla"])
    assert [each["kernel"] for each in found["kernel"]] == ["ours"]
    assert [each["kernel"] for each in found["xla"]] == ["a", "b"]


def test_counters_are_numbers_and_what_ncu_does_not_know_is_left_out(script):
    counters = script("counters")
    row = dict.fromkeys(counters.COUNTERS, "n/a") | {
        "Kernel Name": "ours",
        "gpu__time_duration.sum": "12,345.5",
    }
    assert counters.numbers(row) == {
        "kernel": "ours",
        "gpu__time_duration.sum": 12345.5,
    }


def test_proofs_of_another_text_or_machine_are_not_kept(script, tmp_path):
    (target,) = find_targets([str(SMALL)], Asked(), lambda futures, _: futures)
    machine, path = {"device": "one"}, tmp_path / "proof.json"
    kept = script("gpu_proof").kept
    assert kept(path, machine, [target]) == {}
    digest = code_digest(target.request.source)
    record = {"name": target.request.name, "source_digest": digest}
    path.write_text(json.dumps({"machine": machine, "modules": [record]}))
    assert kept(path, machine, [target]) == {"fp16_128x128": record}
    assert kept(path, {"device": "another"}, [target]) == {}
    record["source_digest"] = "of an earlier text"
    path.write_text(json.dumps({"machine": machine, "modules": [record]}))
    assert kept(path, machine, [target]) == {}


def test_variants_are_planned_or_told_why_not(script):
    variants = script("variants")
    group = {
        "spec": "specs/h200/bf16_128x256_persistent.toml",
        "shape": [4096, 4000, 4096],
        "variants": {
            "two slots": {"pipeline.max_concurrent_steps": 2},
            "tile of 100 rows": {"tile.m": 100},
            "any size": {"shapes.edge": "any"},
        },
    }
    plans, refused = variants.plans_of(group)
    assert list(plans) == ["any size"]
    assert "n = 4000 is not a positive multiple of 256" in refused["two slots"]
    assert "KG101" in refused["tile of 100 rows"]
    request = variants.request_of(plans["any size"], "text", group["shape"])
    (case,) = request.cases
    assert (case.m, case.n, case.k) == (4096, 4000, 4096)


def test_every_group_of_the_list_of_variants_is_planned(script):
    variants = script("variants")
    for group in json.loads((ROOT / "benchmarks/h200_variants.json").read_text()):
        plans, refused = variants.plans_of(group)
        assert refused == {}
        assert len(plans) == 1 + len(group["variants"])


def test_the_page_names_the_fastest_variants_and_what_was_refused(script):
    why = script("why")
    times = {
        name: {"us": us, "xla_over_it": 10 / us}
        for us, name in enumerate(("a", "b", "c", "d", "e", "f", "XLA"), start=1)
    }
    group = {"times": times, "others": {"g": "KG101 tile.m = 100\n  allowed: 64"}}
    told = [row[0] for row in why.variant_rows(group)]
    assert told == ["a", "b", "c", "XLA", "g"]
    assert [*why.variant_rows(group)][-1] == ("g", "KG101 tile.m = 100", "")
    times["a"]["xla_over_it"] = None  # Of a run without XLA.
    assert next(why.variant_rows(group)) == ("a", "1.0", "")


def test_the_page_names_what_was_not_counted_and_what_is_of_an_earlier_text(script):
    why = script("why")
    told = "==PROF== Connected\n==ERROR== Profiling failed because of this.\n"
    pair = {
        "name": SMALL.stem,
        "shape": [128, 128, 64],
        "source_digest": "of an earlier text",
        "steady": {"kernel": {"mhz": 1500, "watts": 700}},
        "counters": {"error": "", "ncu": told},
    }
    said = why.counters({"pairs": [pair]}, "counters.json")
    assert "\nof 0 of 1 of the kernels is the one that is committed" in said
    assert (
        "* fp16_128x128 at 128 x 128 x 64 was not counted: Profiling failed because of"
        " this.\n"
    ) in said


def test_the_page_marks_each_kernel_of_an_earlier_text(script):
    files = script("result_files")
    name, now = SMALL.stem, code_digest(SMALL.read_text(encoding="utf-8"))
    assert files.marked("it", name, {"source_digest": now}) == "it"
    of_earlier = files.marked("it", name, {"source_digest": "other"})
    assert of_earlier == "it (an earlier text)"
    assert files.marked("it", "gone", {}) == "it (no longer there)"


def test_the_page_says_by_which_templates_a_search_was(script):
    searches = script("searches")
    now = template_digest("matmul")
    assert searches.templates({"op": "matmul", "template": now}) == "as committed"
    assert searches.templates({"op": "matmul", "template": "x"}) == "earlier ones"


def test_a_group_whose_spec_does_not_take_the_shape_says_so(script, tmp_path):
    variants = script("variants")
    group = {"spec": "specs/fp16_128x128.toml", "shape": [7, 7, 7], "variants": {}}
    with pytest.raises(KgenError, match="m = 7 is not a positive multiple of 128"):
        variants.Group(group, tmp_path)


PAIRS = json.dumps([[str(SMALL), [128, 128, 64]]])
GROUPS = json.dumps(
    [{"spec": "specs/fp16_128x128.toml", "shape": [128, 128, 64], "variants": {}}]
)


@pytest.fixture
def ended(script, monkeypatch, tmp_path):
    """Runs a script in this process; returns how it ends, which must not be well."""

    def run(name, *arguments):
        out = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments, "--out", str(out)])
        with pytest.raises(SystemExit) as ended:
            sys.exit(script(name).main())
        assert ended.value.code not in (0, None)
        assert not out.exists()
        return str(ended.value.code)

    return run


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("counters", PAIRS),
        ("variants", GROUPS),
        ("jax_example", PAIRS),
        ("h200", PAIRS),
        ("gpu_proof", None),
        ("timeline", None),
    ],
)
def test_without_a_gpu_a_script_says_so(name, text, ended, tmp_path, capsys):
    arguments = [str(SMALL), "128,128,64"] if name == "timeline" else []
    if text is not None:
        (tmp_path / "list.json").write_text(text)
        arguments = [str(tmp_path / "list.json")]
    told = ended(name, *arguments) + capsys.readouterr().out
    assert "no NVIDIA GPU" in told or "sees no" in told


NO_LISTS = {
    "empty": "",
    "null": "null",
    "of_nothing": "[]",
    "of_a_number": "[1]",
    "of_a_table": '{"a": 1}',
    "of_no_spec": '[{"spec": 1}]',
    "no_text": "\x00",
    "deep": "[" * 100_000,
    "endless_pair": '[["a", [1e400, 1, 1]]]',
    "endless_group": '[{"spec": "a", "shape": [1, 1, 1e400], "variants": {}}]',
    "no_variant": '[{"spec": "a", "shape": [1, 1, 1], "variants": {"b": 1}}]',
    "missing": None,
}


@pytest.mark.parametrize("text", NO_LISTS.values(), ids=list(NO_LISTS))
@pytest.mark.parametrize("name", ["h200", "counters", "jax_example", "variants"])
def test_what_is_no_list_is_told(name, text, ended, tmp_path):
    path = tmp_path / "list.json"
    if text is not None:
        path.write_text(text)
    assert ended(name, str(path)).startswith(f"{path} is no list of ")


@pytest.mark.parametrize(
    "arguments", [["nowhere.py", "1,2,3"], [str(SMALL), "1,2"], [str(SMALL), "x"]]
)
def test_a_timeline_needs_a_module_and_three_sizes(arguments, ended, capsys):
    assert ended("timeline", *arguments) == "2"
    assert "usage: timeline.py" in capsys.readouterr().err


@pytest.fixture
def job(tmp_path):
    """A job of a process that runs one kernel."""
    (target,) = find_targets([str(SMALL)], Asked(), lambda futures, _: futures)
    return {
        "request": target.request.to_json(),
        "directory": str(tmp_path),
        "platform": "cpu",
        "prepared": "",
        "runs": 2,
        "large": [0, 0, 0],
    }


@pytest.fixture
def read_job(script, monkeypatch):
    """Reads a job from what would be stdin."""

    def read(text):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        return script("mutant_on_gpu").read_job()

    return read


def test_a_job_is_read(job, read_job):
    assert read_job(json.dumps(job))[0] == job
    assert read_job(json.dumps(job))[1].name == SMALL.stem


@pytest.mark.parametrize("text", ["", "{", "null", "[1]", "\x00", "[" * 100_000])
def test_what_is_no_job_is_told(text, read_job):
    with pytest.raises(SystemExit, match=r"^stdin is no job: [^\n]+$"):
        read_job(text)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"runs": "2"}, "runs is '2', not an int"),
        ({"runs": True}, "runs is True, not an int"),
        ({"runs": 0}, "runs is 0, not 1 or more"),
        ({"large": [1, 2]}, "large is [1, 2], not three sizes"),
        ({"large": ["a", 1, 1]}, "large is ['a', 1, 1], not three sizes"),
        ({"prepared": None}, "prepared is None, not a str"),
        ({"directory": "nowhere"}, "there is no directory nowhere"),
        ({"request": "{}"}, "cases must be a list"),
    ],
)
def test_what_is_wrong_with_a_job_is_told(change, told, job, read_job):
    with pytest.raises(SystemExit) as ended:
        read_job(json.dumps({**job, **change}))
    assert ended.value.code == f"stdin is no job: {told}"


@pytest.fixture
def limits(script, monkeypatch, tmp_path):
    """Runs register_limits.py in a directory with a file; returns how it ends."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["register_limits.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            script("register_limits").main()
        return ended.value.code

    return run


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--render DIR or --run DIR is needed"),
        (["--run", "nowhere"], "there is no directory nowhere"),
        (["--run", "."], "there is no module wgs0_128x216.py in ."),
        (["--run", ".", "--module", "nothing"], "there is no module nothing.py in ."),
        (["--render", "here", "--module", "a"], "--module needs --run DIR"),
        (["--render", "file"], "--render file is no directory"),
        (["--run", ".", "--out", "nowhere/a.json"], "there is no directory nowhere"),
    ],
)
def test_register_limits_need_directories(arguments, told, limits, capsys):
    assert limits(*arguments) == 2
    assert capsys.readouterr().err.endswith(f"register_limits.py: error: {told}\n")


def test_register_limits_need_a_gpu(script, limits, tmp_path):
    register_limits = script("register_limits")
    for tile in register_limits.TILES:
        (tmp_path / f"{register_limits.name_of(*tile)}.py").touch()
    assert limits("--run", ".") == "error: JAX sees no NVIDIA GPU"
    assert not (tmp_path / "register_limits.json").exists()


def test_a_damaged_result_file_is_named(script, monkeypatch, tmp_path):
    files = script("result_files")
    monkeypatch.setattr(files, "RESULTS", tmp_path)
    (tmp_path / "speed.json").write_text("{")
    with pytest.raises(SystemExit, match=r"speed\.json is damaged: .*\n  hint: git"):
        files.load("speed.json")
    with pytest.raises(SystemExit, match=r"h200\.json cannot be read: "):
        files.load("h200.json")


@pytest.fixture
def page(script, monkeypatch, tmp_path):
    """Lets the benchmarks' page be made of copies of the result files."""
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(script("result_files"), "RESULTS", tmp_path)
    return script("report").page


RESULT_FILES = sorted(path.name for path in (ROOT / "benchmarks/results").iterdir())


@pytest.mark.parametrize("name", RESULT_FILES)
@pytest.mark.parametrize(
    "text", ["5", "{}", "[]", '[{"module": 1}]', '{"results": [1]}', "[" * 100_000]
)
def test_a_result_file_of_another_shape_is_damaged(name, text, page, tmp_path):
    path = tmp_path / name
    path.write_text(text + "\n")
    with pytest.raises(SystemExit) as ended:
        page()
    place = f"{path}:1" if name.endswith(".jsonl") else path
    told = str(ended.value.code)
    assert told.startswith(f"{place} is damaged: ")
    assert told.endswith("\n  hint: git checkout it")


def test_a_broken_line_of_a_result_file_is_named(page, tmp_path):
    path = tmp_path / "h200_tune.jsonl"
    lines = path.read_text().splitlines()
    lines[2] = lines[2][:40]
    path.write_text("\n".join(lines))
    with pytest.raises(SystemExit) as ended:
        page()
    assert str(ended.value.code).startswith(f"{path}:3 is damaged: JSONDecodeError: ")


def test_the_page_says_which_of_two_files_is_damaged(page, tmp_path):
    document = json.loads((tmp_path / "h200.json").read_text())
    del document["results"][0]["shape"]
    (tmp_path / "h200.json").write_text(json.dumps(document))
    with pytest.raises(SystemExit, match=r"h200\.json is damaged: KeyError: 'shape'\n"):
        page()
