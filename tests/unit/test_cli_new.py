"""`kgen new`: a starter spec that is valid and loses nothing."""

import re
import tomllib

import pytest
from commands import kgen

from kgen.plan import make_plan
from kgen.spec.glu import GluSpec
from kgen.spec.load import load_file
from kgen.spec.model import Kernel, Spec
from kgen.spec.schema import schema_text
from kgen.spec_reference import tables
from kgen.starter import starter_spec


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_writes_a_spec_and_its_schema(here):
    outcome = kgen("new", "mine", "--op", "matmul")
    assert outcome.exit_code == 0
    assert outcome.stdout == "wrote specs/mine.toml\nwrote specs/kgen.schema.json\n"
    assert sorted(path.name for path in (here / "specs").iterdir()) == [
        "kgen.schema.json",
        "mine.toml",
    ]
    assert (here / "specs/kgen.schema.json").read_text() == schema_text()
    text = (here / "specs/mine.toml").read_text()
    assert text.startswith("#:schema ./kgen.schema.json\n")
    (sourced,) = load_file(here / "specs/mine.toml")
    assert sourced.spec == Spec(kernel=Kernel(name="mine", op="matmul"))


def test_keeps_a_schema_that_is_there(here):
    (here / "specs").mkdir()
    (here / "specs/kgen.schema.json").write_text("{}")
    assert kgen("new", "mine", "--op", "matmul").stdout == "wrote specs/mine.toml\n"
    assert (here / "specs/kgen.schema.json").read_text() == "{}"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_every_dtype_gives_a_legal_kernel(here, dtype):
    assert kgen("new", "mine", "--op", "matmul", "--dtype", dtype).exit_code == 0
    (sourced,) = load_file(here / "specs/mine.toml")
    plan = make_plan(sourced)
    assert plan.operand_dtype == plan.out_dtype == dtype


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_a_gated_linear_unit(here, dtype):
    chosen = [] if dtype is None else ["--dtype", dtype]
    outcome = kgen("new", "mine", "--op", "glu", *chosen)
    assert outcome.stdout == "wrote specs/mine.toml\nwrote specs/kgen.glu.schema.json\n"
    schema = (here / "specs/kgen.glu.schema.json").read_text()
    assert schema == schema_text(GluSpec)
    text = (here / "specs/mine.toml").read_text()
    assert text.startswith("#:schema ./kgen.glu.schema.json\n")
    assert '\n# activation = "silu"\n' in text
    assert "epilogue" not in text
    (sourced,) = load_file(here / "specs/mine.toml")
    plan = make_plan(sourced)
    assert (plan.op, plan.operand_dtype) == ("glu", dtype or "bfloat16")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--op", "gemm"),
            "'gemm' is not \"matmul\" or \"glu\". Did you mean 'matmul'?",
        ),
        (("--op", "glue"), "'glue' is not \"matmul\" or \"glu\". Did you mean 'glu'?"),
        (("--op", "dispatch"), "a spec of this operation is written by hand."),
        (("--op", "glu", "--dtype", "float32"), "not 'float32'."),
    ],
)
def test_refuses_what_it_has_no_starter_for(here, arguments, message):
    outcome = kgen("new", "mine", *arguments)
    assert outcome.exit_code == 2
    assert outcome.stderr.rstrip().endswith(message)
    assert not list(here.iterdir())


def test_teaches_every_key_with_its_default():
    text = starter_spec("mine", "matmul", None, None)
    for table in tables():
        assert f"\n[{table.name}]\n" in text
        for key in table.keys:
            if key.default is not None:
                assert f"\n# {key.name} = {key.default}\n" in text
    assert (
        "\n# Rows of the output tile. (an integer from 1 to 65536)\n# m = 128\n" in text
    )
    assert max(map(len, text.splitlines())) <= 88


def test_defaults_may_be_uncommented_all_at_once():
    text = starter_spec("mine", "matmul", None, None)
    # Without those that have no value, and without the example of a matrix.
    given = re.findall(r"^(\[.*|(?:# )?[a-z_]+ = .+)$", text, re.MULTILINE)
    document = "\n".join(line.removeprefix("# ") for line in given)
    data = _frozen(tomllib.loads(document))
    assert len(data["kernel"]) == 8
    assert Spec.model_validate(data) == Spec(kernel=Kernel(name="mine", op="matmul"))


def _frozen(value):
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def test_never_overwrites_a_spec(here):
    (here / "specs").mkdir()
    (here / "specs/mine.toml").write_text("mine")
    outcome = kgen("new", "mine", "--op", "matmul")
    assert outcome.exit_code == 5
    assert outcome.stderr == (
        "error: specs/mine.toml is there already\n"
        "  hint: give another name, or overwrite it with --force\n"
    )
    assert (here / "specs/mine.toml").read_text() == "mine"
    assert not (here / "specs/kgen.schema.json").exists()


def test_never_follows_a_dangling_link(here):
    (here / "specs").mkdir()
    (here / "specs/mine.toml").symlink_to(here / "elsewhere")
    assert kgen("new", "mine", "--op", "matmul").exit_code == 5
    assert not (here / "elsewhere").exists()


def test_force_overwrites(here):
    (here / "specs").mkdir()
    (here / "specs/mine.toml").write_text("mine")
    assert kgen("new", "mine", "--op", "matmul", "--force").exit_code == 0
    (sourced,) = load_file(here / "specs/mine.toml")
    assert sourced.name == "mine"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a b", "is not an ASCII Python identifier"),
        ("../x", "is not an ASCII Python identifier"),
        ("", "is empty"),
        ("class", "is a keyword of Python"),
        ("jax", "would shadow a module that the kernel needs"),
        ("x\n", "is not an ASCII Python identifier"),
        ("\udcff", "is not an ASCII Python identifier"),
        ("x{tile.n}", "is not an ASCII Python identifier"),
    ],
)
def test_refuses_a_bad_name_as_the_loader_does(here, name, reason):
    outcome = kgen("new", "--op", "matmul", "--", name)
    assert outcome.exit_code == 3
    first = outcome.stderr.splitlines()[0]
    assert first.endswith(reason)
    assert list(here.iterdir()) == []


def test_tells_a_name_close_by(here):
    outcome = kgen("new", "a b", "--op", "matmul")
    lines = outcome.stderr.splitlines()
    assert lines[0] == (
        'specs/a b.toml: KG007 kernel.name = "a b" is not an ASCII Python identifier'
    )
    assert lines[2] == '  hint: did you mean "a_b"?'


@pytest.mark.parametrize(
    ("option", "word", "meant"),
    [
        ("--dtype", "fp16", "float16"),
        ("--dtype", "BF16", "bfloat16"),
        ("--dtype", "flaot32", "float32"),
        ("--op", "gemm", "matmul"),
        ("--op", "matmull", "matmul"),
    ],
)
def test_suggests_what_was_probably_meant(here, option, word, meant):
    outcome = kgen("new", "mine", "--op", "matmul", option, word)
    assert outcome.exit_code == 2
    assert outcome.stderr.rstrip().endswith(f". Did you mean '{meant}'?")


def test_refuses_unknown_operations_and_dtypes(here):
    outcome = kgen("new", "mine", "--op", "gemm")
    assert outcome.exit_code == 2
    assert "Invalid value for '--op': 'gemm' is not \"matmul\" or" in outcome.stderr
    outcome = kgen("new", "mine", "--op", "matmul", "--dtype", "int8")
    assert outcome.exit_code == 2
    assert outcome.stderr.endswith(
        '\'int8\' is not "float16", "bfloat16", "float32", "float8_e4m3fn" or '
        '"float8_e5m2".\n'
    )
    assert list(here.iterdir()) == []


def test_a_file_where_the_directory_should_be(here):
    (here / "specs").write_text("")
    outcome = kgen("new", "mine", "--op", "matmul")
    assert outcome.exit_code == 5
    assert "a file stands where a directory is expected" in outcome.stderr
