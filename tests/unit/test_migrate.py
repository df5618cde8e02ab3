"""Specs of other formats: refused with what to do, or rewritten byte by byte."""

import tomllib
from pathlib import Path

import pytest
from commands import kgen
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.errors import SpecError
from kgen.spec.load import load_file
from kgen.spec.locate import spans
from kgen.spec.migrations import migrate

KERNEL = '[kernel]\nname = "gemm"\nop = "matmul"\n'


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("specs").mkdir()
    return tmp_path


def write(text, name="gemm"):
    path = Path("specs", f"{name}.toml")
    path.write_bytes(text.encode())
    return path


class TestFormat:
    def test_the_newest_may_be_named(self):
        (named,) = load_file(write(f"format = 1\n\n{KERNEL}"))
        (plain,) = load_file(write(KERNEL))
        assert named.digest == plain.digest

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (
                "2",
                "specs/gemm.toml:1: KG011 format = 2 is newer than kgen 0.1.0 reads: 1\n"
                "  hint: install a newer kgen",
            ),
            (
                "0",
                "specs/gemm.toml:1: KG011 format = 0 is older than kgen 0.1.0 reads: 1\n"
                "  hint: kgen migrate specs/gemm.toml",
            ),
            (
                '"1"',
                'specs/gemm.toml:1: KG004 format = "1" is a string, an integer is'
                " expected\n  allowed: 1\n  hint: write 1",
            ),
        ],
    )
    def test_another_is_told_alone(self, value, message):
        # A spec from the future may hold any key.
        with pytest.raises(SpecError) as caught:
            load_file(
                write(f"format = {value}\n{KERNEL}" + "new = 1\n" * (value == "2"))
            )
        assert str(caught.value) == message

    def test_a_family_has_one(self):
        with pytest.raises(SpecError, match="format cannot be set by \\[matrix\\]"):
            load_file(write(f"{KERNEL}[matrix]\nformat = [1]\n"))


REWRITTEN = {
    "a key": ("[pipeline]\nstages = 3\n", "[pipeline]\nmax_concurrent_steps = 3\n"),
    "comments and layout": (
        "[pipeline] # How deep.\n  stages   =\t3# ring\n# End.\n",
        "[pipeline] # How deep.\n  max_concurrent_steps   =\t3# ring\n# End.\n",
    ),
    "a dotted key": (
        "pipeline.stages = 3\n",
        "pipeline.max_concurrent_steps = 3\n",
    ),
    "a key of an inline table": (
        "tile = { block_m = 64, n = 64 } # Small.\n",
        "tile = { m = 64, n = 64 } # Small.\n",
    ),
    "a quoted key": ('[tile]\n"block_m" = 64\n', "[tile]\nm = 64\n"),
    "a value": ("[dtypes]\na = 'fp16' # A\n", '[dtypes]\na = "float16" # A\n'),
    "a key and its value": ('[dtypes]\ndtype = "bf16"\n', '[dtypes]\na = "bfloat16"\n'),
    "values of a matrix": (
        '[matrix]\ndtypes.a = ["fp16", "bfloat16", "bf16"]\n',
        '[matrix]\ndtypes.a = ["float16", "bfloat16", "bfloat16"]\n',
    ),
    "a key of a matrix": (
        "[matrix]\nblock_n = [64, 128]\n",
        "[matrix]\ntile.n = [64, 128]\n",
    ),
    "into a table that is there": (
        "[pipeline]\nblock_m = 64 # rows\ndelay_release = 1\n\n[tile]\nn = 64\n\n[store]\n",
        "[pipeline]\ndelay_release = 1\n\n[tile]\nn = 64\nm = 64 # rows\n\n[store]\n",
    ),
    "into a table that is not": (
        "[pipeline]\nblock_m = 64 # rows\nblock_n = 32",
        "[pipeline]\n\n[tile]\nm = 64 # rows\nn = 32\n",
    ),
    "a moved value over lines": (
        '[tile]\ndtype = """\\\n  fp16"""  # A\nm = 64\n',
        '[tile]\nm = 64\n\n[dtypes]\na = "float16"  # A\n',
    ),
}


@pytest.mark.parametrize("case", REWRITTEN)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_what_is_rewritten(case, ends):
    old, new = (text.replace("\n", ends) for text in REWRITTEN[case])
    head = "" if old.startswith(("pipeline.", "tile =")) else KERNEL.replace("\n", ends)
    assert migrate(head + old, "gemm.toml").text == head + new


def test_format_and_placeholders():
    old = (
        'format = 0 # Old.\n[kernel]\nname = "g_{block_n}"\nop = "gemm"\n'
        "[matrix]\nblock_n = [64, 128]\n"
    )
    made = migrate(old, "gemm.toml")
    assert made.text == (
        'format = 1 # Old.\n[kernel]\nname = "g_{tile.n}"\nop = "matmul"\n'
        "[matrix]\ntile.n = [64, 128]\n"
    )
    assert made.changes == (
        (1, "format becomes 1"),
        (3, 'kernel.name becomes "g_{tile.n}"'),
        (4, 'kernel.op becomes "matmul"'),
        (6, "matrix.block_n becomes matrix.tile.n"),
    )
    assert [spec.name for spec in load_file(write(made.text))] == ["g_64", "g_128"]
    assert migrate(made.text, "gemm.toml").changes == ()


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (
            "[pipeline]\nstages = 3\nmax_concurrent_steps = 4\n",
            5,
            "pipeline.stages and pipeline.max_concurrent_steps are both set",
        ),
        (
            "[pipeline]\nstages = 3\ndepth = 4\n",
            6,
            "pipeline.depth and pipeline.stages are both set",
        ),
        (
            "tile = { m = 64 }\n[pipeline]\nblock_n = 64\n",
            6,
            "the keys of an older format cannot be rewritten by a program here",
        ),
        (
            "schedule = { stages = 2 }\n",
            4,
            "the keys of an older format cannot be rewritten by a program here",
        ),
    ],
)
def test_what_is_left_to_the_user(text, line, told):
    if text.startswith(("tile =", "schedule =")):
        text = f"{text.splitlines()[0]}\n{KERNEL}{text.partition(chr(10))[2]}"
        line = {"tile": 6, "schedule": 1}[text.split()[0]]
    else:
        text = KERNEL + text
    with pytest.raises(SpecError) as caught:
        migrate(text, "gemm.toml")
    (problem,) = caught.value.problems
    assert (problem.code, problem.line, problem.message) == ("KG011", line, told)


@pytest.mark.parametrize(
    ("value", "hint"),
    [("7", "install a newer kgen"), ('"1"', "write 1"), ("-1", "write 1")],
)
def test_a_format_that_is_none(value, hint):
    with pytest.raises(SpecError) as caught:
        migrate(f"format = {value}\n{KERNEL}", "g.toml")
    assert str(caught.value) == (
        f"g.toml:1: KG011 format = {value} is none that this kgen knows: up to 1\n"
        f"  hint: {hint}"
    )


def test_a_plug_ins_own_keys_stay():
    text = '[kernel]\nname = "g"\nop = "scale"\n[scale]\ndepth = 3\n'
    assert migrate(text, "g.toml").text == text


COMMENTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20).map(
    lambda text: f"# {text}"
)


@settings(max_examples=60, deadline=None)
@given(st.lists(COMMENTS, min_size=3, max_size=3), st.sampled_from(["", "  ", "\t"]))
def test_no_byte_is_lost_of_what_stays(comments, space):
    first, second, third = comments
    old = (
        f"{first}\n{KERNEL}[pipeline]{space}{second}\n{space}stages{space}={space}3"
        f"{space}{third}\n[tile]\nm{space}={space}64\n"
    )
    new = migrate(old, "gemm.toml").text
    assert new == old.replace(
        f"\n{space}stages{space}=", f"\n{space}max_concurrent_steps{space}=", 1
    )
    assert tomllib.loads(new)["pipeline"] == {"max_concurrent_steps": 3}


def test_spans():
    text = '[a.b]\n"c.d" . e = [1, { f = "x" }] # end\n'
    found = spans(text)
    key = ("a", "b", "c.d", "e")
    assert text[slice(*found.keys[key])] == "e"
    assert text[slice(*found.pairs[key])] == '"c.d" . e = [1, { f = "x" }]'
    assert text[slice(*found.values[*key, 1, "f"])] == '"x"'
    assert text[: found.ends["a", "b"]].endswith("}]")


class TestCommand:
    OLD = "\ufeff" + KERNEL.replace("\n", "\r\n") + "[pipeline]\r\nstages = 3\r\n"
    TOLD = "specs/gemm.toml:5: pipeline.stages becomes pipeline.max_concurrent_steps\n"

    def test_check_writes_nothing(self):
        path = write(self.OLD)
        outcome = kgen("migrate", "--check")
        assert (outcome.exit_code, outcome.stdout) == (
            1,
            f"{self.TOLD}1 of 1 specs would change.\n",
        )
        assert path.read_bytes() == self.OLD.encode()

    def test_it_rewrites_and_then_has_nothing_to_do(self):
        path = write(self.OLD)
        other = write(KERNEL.replace("gemm", "new"), "new")
        path.chmod(0o640)
        before = other.stat()
        outcome = kgen("migrate")
        assert (outcome.exit_code, outcome.stdout) == (
            0,
            f"{self.TOLD}1 of 2 specs changed.\n",
        )
        assert path.read_bytes() == (
            self.OLD.replace("stages", "max_concurrent_steps").encode()
        )
        assert path.stat().st_mode & 0o777 == 0o640
        assert other.stat().st_mtime_ns == before.st_mtime_ns
        assert len([*Path("specs").iterdir()]) == 2
        again = kgen("migrate", "--check")
        assert (again.exit_code, again.stdout) == (0, "0 of 2 specs would change.\n")

    def test_what_kgen_brings_along_is_left_alone(self):
        Path("specs").rmdir()
        outcome = kgen("migrate")
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "there is no specs/ here\n  hint: name them" in outcome.stderr
        named = kgen("migrate", "specs/fp16_128x128.toml")
        assert (named.exit_code, named.stdout) == (5, "")

    def test_one_that_cannot_be_read_does_not_keep_the_others(self):
        write("name = \n", "bad")
        write(f"format = 7\n{KERNEL}", "future")
        write(self.OLD)
        outcome = kgen("migrate")
        assert outcome.exit_code == 3
        assert outcome.stdout == f"{self.TOLD}1 of 3 specs changed.\n"
        assert "specs/bad.toml:1: KG001" in outcome.stderr
        assert (
            "specs/future.toml:1: KG011 format = 7 is none that this kgen knows"
            in outcome.stderr
        )
