"""The file of results: nothing is lost, nothing that is wrong is believed."""

import dataclasses
import fcntl
import json
from pathlib import Path

import commands
import pytest

from kgen.errors import FileError, UsageError
from kgen.tune.records import FINAL, SEARCH, Key, Record
from kgen.tune.store import Store, merge, read

KEY = Key(
    op="matmul",
    dtypes=(("accumulator", "float32"), ("operands", "bfloat16")),
    layout="nn",
    shape=(4096, 4096, 4096),
    arch="sm_90a",
    device="NVIDIA H200",
    jax="0.11.2",
    template="0123456789ab",
)
RECORD = Record(
    key=KEY,
    digest="aa",
    values=(("tile.m", 128), ("schedule.persistent", None), ("tile.tiling", (8, 64))),
    stage=SEARCH,
    outcome="measured",
    us=(170.5, 171.0),
    peer_us=(171.0, 170.9),
    seconds=3.5,
)


# Parts of a key that were added when there were files already, and a value of each.
NEWER = {
    "epilogue": "relu()",
    "activation": "silu",
    "scale_block": 128,
    "edge": "any",
    "batch": (64,),
}
OLD = Path(__file__).parents[2] / "benchmarks" / "results" / "h200_tune.jsonl"


def other(digest, **changes):
    return dataclasses.replace(RECORD, digest=digest, **changes)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.jsonl"


def fill(path, *records):
    with Store(path) as store:
        for record in records:
            store.add(record)


def test_a_record_survives_its_line():
    assert Record.from_line(RECORD.to_line()) == RECORD
    failed = other("b", outcome="abort", us=(), peer_us=(), detail='it\nsaid "no"')
    assert Record.from_line(failed.to_line()) == failed
    assert "\n" not in failed.to_line()


def test_newer_parts_of_a_key_are_told_where_they_matter():
    plain = json.loads(RECORD.to_line())["key"]
    assert not NEWER.keys() & plain.keys()
    for name, value in NEWER.items():
        record = other("b", key=dataclasses.replace(KEY, **{name: value}))
        told = json.loads(record.to_line())["key"]
        assert {*told} == {*plain, name}
        assert Record.from_line(record.to_line()) == record


def test_a_file_of_before_is_read_and_stays_as_it_was():
    found = read(OLD)
    lines = OLD.read_text("utf-8").splitlines()
    assert (len(found.records), found.corrupt) == (len(lines), ())
    assert [record.to_line() for record in found.records] == lines
    newer = [getattr(found.records[0].key, name) for name in NEWER]
    assert newer == ["", "", 0, "exact", ()]


def test_what_was_added_is_found_again(path):
    fill(path, RECORD)
    with Store(path) as store:
        assert store.corrupt == ()
        assert store.get(KEY, "aa", SEARCH) == RECORD
        assert store.get(KEY, "aa", FINAL) is None
        assert store.get(KEY, "bb", SEARCH) is None
        store.add(other("bb"))
    assert read(path).records == (RECORD, other("bb"))


@pytest.mark.parametrize(
    "change",
    [
        {"op": "attention"},
        {"dtypes": (("accumulator", "float32"), ("operands", "float16"))},
        {"layout": "nt"},
        {"shape": (4096, 4096, 8192)},
        {"arch": "sm_100a"},
        {"device": "NVIDIA H100"},
        {"jax": "0.12.0"},
        {"template": "ba9876543210"},
        *({name: value} for name, value in NEWER.items()),
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_result_holds_for_its_own_key_alone(path, change):
    fill(path, RECORD)
    with Store(path) as store:
        assert store.get(dataclasses.replace(KEY, **change), "aa", SEARCH) is None


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_torn_last_line_is_dropped(path, cut):
    fill(path, RECORD, other("bb"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut] if cut > 1 else whole[:-2])
    assert read(path).torn
    with Store(path) as store:
        assert store.corrupt == ()
        assert store.get(KEY, "aa", SEARCH) == RECORD
        assert store.get(KEY, "bb", SEARCH) is None
        store.add(other("cc"))
    assert read(path).records == (RECORD, other("cc"))
    assert not read(path).torn


def test_a_last_line_that_lacks_its_end_alone_is_kept(path):
    fill(path, RECORD)
    path.write_bytes(path.read_bytes()[:-1])
    fill(path, other("bb"))
    assert read(path).records == (RECORD, other("bb"))


def line(**changes):
    fields = json.loads(RECORD.to_line())
    return json.dumps({**fields, **changes})


def of_key(**changes):
    return line(key={**json.loads(RECORD.to_line())["key"], **changes})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("{", "Expecting property name"),
        ("[1]", "it is no object"),
        ("\ud800" "x", None),
        (line(format=2), "its format is 2, not 1"),
        (line(extra=1), "record has ["),
        (line(stage="third"), "stage is 'third', not one of search, final"),
        (line(outcome="fine"), "outcome is 'fine', not one of measured, wrong"),
        (line(us=[]), "it was measured, but has no times"),
        (line(us=[0.0]), "us is [0.0], not positive numbers"),
        (line(us=[float("nan")]), "NaN is no number"),
        (line(us=[10**400]), "not positive numbers"),
        (line(seconds=float("inf")), "Infinity is no number"),
        (line(seconds=0).replace('"seconds": 0', '"seconds": 1e999'), "not a time"),
        (line(seconds=10**400), "not a time"),
        (line(seconds={}), "seconds is {}, not a time"),
        (
            line(values={"tile.m": {"a": 1}}),
            "values has 'tile.m' as {'a': 1}, which no",
        ),
        (line(values={"tile.m": [{}]}), "values has 'tile.m' as [{}], which no key of"),
        (line(values={"tile.m": 10**400}), "values has 'tile.m' as 1000"),
        (of_key(shape=[0, 1, 1]), "shape is [0, 1, 1], not three positive integers"),
        (line(us="12"), "us is '12', not positive numbers"),
        (line(seconds=True), "seconds is True, not a time"),
        (line(values=[]), "values is no object"),
        (line(key={}), "key has []"),
        (of_key(batch=[0]), "batch is [0], not positive integers"),
        (of_key(batch="64"), "batch is '64', not positive integers"),
        (of_key(scale_block=True), "scale_block is True, not a size"),
        (of_key(scale_block=-1), "scale_block is -1, not a size"),
        (of_key(edge=3), "the key has a part that is no text"),
        (of_key(newest=3), "key has ['arch', 'device', 'dtypes', 'jax', 'layout', "),
        (line(digest=3), "digest, stage or detail is no text"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
    ids=range(31),
)
def test_a_corrupt_line_is_told_and_skipped(path, wrong, told):
    fill(path, RECORD)
    with path.open("ab") as file:
        file.write(wrong.encode(errors="surrogatepass") + b"\n")
    fill(path, other("bb"))
    found = read(path)
    assert found.records == (RECORD, other("bb"))
    (corrupt,) = found.corrupt
    assert corrupt.startswith(f"{path}:2: not a result: ")
    assert told is None or told in corrupt


def test_another_file_is_refused(path):
    path.write_text("[kernel]\nname = 'gemm'\n")
    with pytest.raises(
        FileError, match=r"results.jsonl:1: not a result: .*\n.*--results"
    ):
        Store(path)
    assert path.read_text() == "[kernel]\nname = 'gemm'\n"


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(FileError, match="cannot write"):
        Store(tmp_path)


def test_a_second_writer_is_refused(path):
    with Store(path), pytest.raises(UsageError, match="another kgen tune writes to"):
        Store(path)
    fill(path, RECORD)  # The lock is gone with its holder.


def test_a_lock_that_is_left_is_no_lock(path):
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    fill(path, RECORD)


def test_files_are_merged(tmp_path):
    one, two, both = (tmp_path / name for name in ("one", "two", "both"))
    fill(one, RECORD, other("bb"))
    fill(two, RECORD, other("cc"), other("bb", us=(1.0,)))
    with one.open("a") as file:
        file.write("torn")
    with two.open("a") as file:
        file.write("corrupt\n")
    count, left_out = merge([one, two], both)
    assert count == 3
    assert [text.removeprefix(str(tmp_path)).split(":")[0] for text in left_out] == [
        "/two",
        "/one",
        "1 measured again by a later line or file",
    ]
    with Store(both) as store:
        assert store.get(KEY, "bb", SEARCH).us == (1.0,)  # The later file counts.
        assert store.get(KEY, "cc", SEARCH) == other("cc")


def test_merging_never_overwrites(tmp_path):
    one, both = tmp_path / "one", tmp_path / "both"
    fill(one, RECORD)
    both.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        merge([one], both)
    with pytest.raises(FileError, match="two: no such file or directory"):
        merge([one, tmp_path / "two"], tmp_path / "new")
    assert both.read_text() == "mine"
    assert not (tmp_path / "new").exists()


def test_of_files_that_are_named_twice_the_last_counts(tmp_path):
    one, two, both = (tmp_path / name for name in ("one", "two", "both"))
    fill(one, RECORD)
    fill(two, other("aa", us=(1.0,)))
    assert merge([one, two, one], both)[0] == 1
    assert read(both).records == (RECORD,)


def test_a_device_is_no_file_of_results():
    with pytest.raises(FileError) as error:
        Store(Path("/dev/null"))
    assert str(error.value) == (
        "/dev/null is no regular file\n  hint: name another one with --results"
    )


def test_the_command_merges(tmp_path):
    one, two, both = (tmp_path / name for name in ("one", "two", "both"))
    fill(one, RECORD)
    fill(two, other("bb"))
    done = commands.kgen("tune", "--merge", one, two, "-o", both)
    assert (done.exit_code, done.stdout) == (0, f"2 results in {both}.\n")
    done = commands.kgen("tune", "--merge", one, two)
    assert done.exit_code == 2
    assert "--merge needs -o FILE" in done.stderr


def test_the_command_refuses_to_merge_what_are_no_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(Path("one"), RECORD)
    Path("h200.json").write_text('{"my": "precious data"}\n')
    done = commands.kgen("tune", "--merge", "one", "h200.json", "-o", "both")
    assert done.exit_code == 5
    assert done.stderr.startswith("error: h200.json:1: not a result: ")
    assert done.stderr.endswith(
        "\n  hint: h200.json is no file of tuning results; leave it out of --merge\n"
    )
    done = commands.kgen("tune", "--merge", "one", "none", "-o", "both")
    assert (done.exit_code, done.stderr) == (
        5,
        "error: none: no such file or directory\n"
        "  allowed: files of results that `kgen tune` wrote\n"
        "  hint: leave it out of --merge, or check its name\n",
    )
    assert not Path("both").exists()


@pytest.mark.parametrize("text", ['{"my": "precious data"}', "x", "a, b\nc, d"])
def test_a_file_of_somebody_else_is_refused_and_kept(path, text):
    path.write_text(text)
    with pytest.raises(FileError, match="is no file of tuning results"):
        Store(path)
    assert path.read_text() == text


def test_a_run_without_results_leaves_no_file(tmp_path):
    path = tmp_path / "new.jsonl"
    with Store(path):
        assert path.exists()
    assert not path.exists()
    path.touch()
    with Store(path):
        pass
    assert path.exists()
