"""Whatever the command line says, a command ends with a documented code."""

import string

import pytest
from commands import kgen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SPEC = '[kernel]\nname = "one"\nop = "matmul"\n'
# Doctor looks at the machine, which takes seconds; render has tests of its own.
COMMANDS = ["explain", "list", "new", "schema", "rule"]
WORDS = [
    "--format",
    "json",
    "text",
    "--format=xml",
    "--shape",
    "128,128,64",
    "0,0,0",
    "1,2",
    "99999999999999999999,1,1",
    "--variant",
    "one",
    "--op",
    "matmul",
    "--dtype",
    "float32",
    "--out",
    "--force",
    "--",
    "-",
    ".",
    "..",
    "/",
    "one.toml",
    "one.toml/x",
    "bad.toml",
    "empty",
    "KG101",
    "kg007",
    "",
    "%s",
    "{{ x }}",
    "[red]",
    '"""',
    "\n",
    "\udcff",
    "a" * 300,
]
word = st.sampled_from(WORDS) | st.text(
    st.sampled_from(string.printable + "é\u202e\U0001f600"), max_size=12
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("fuzz")
    (directory / "one.toml").write_text(SPEC)
    (directory / "bad.toml").write_bytes(b"\xff\x00[")
    (directory / "empty").mkdir()
    return directory


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(name=st.sampled_from(COMMANDS), arguments=st.lists(word, max_size=5))
def test_ends_with_a_documented_code(place, monkeypatch, name, arguments):
    monkeypatch.chdir(place)
    if name in ("list", "new") and any(a.startswith(("/", "..")) for a in arguments):
        return  # Neither search the whole disk nor write elsewhere.
    outcome = kgen(name, *arguments)
    assert outcome.exit_code in (0, 2, 3, 5)
    assert "Traceback" not in outcome.stderr + outcome.stdout
    if outcome.exit_code:
        assert outcome.stderr
