"""Lines of keys, against documents whose lines are known."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.spec.locate import locate

pytestmark = pytest.mark.without_jax


def leaves(value, path=()):
    """Yields the path of every table, key and array element."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from leaves(item, (*path, key))
        else:
            yield (*path, key)


def test_tables_dotted_and_quoted_keys():
    text = """# tile.m = 0

[a] # [b]
x = 1 # y = 2
"p.q".'r s' . t = 3
[a . "b\\u0041"]
z = '#'
"""
    assert locate(text) == {
        ("a",): 3,
        ("a", "x"): 4,
        ("a", "p.q"): 5,
        ("a", "p.q", "r s"): 5,
        ("a", "p.q", "r s", "t"): 5,
        ("a", "bA"): 6,
        ("a", "bA", "z"): 7,
    }


def test_strings_that_look_like_toml():
    text = (
        'a = """\n[b]\nc = 1 \\""" d\n"""""\n'  # Ends with two quotes of its own.
        "e = '''\n[f]\n'' \\''''\n"
        'g = "[h] # \\" i = 1"\n'
        "j = '\\' # k\n"
        "l = 1\n"
    )
    assert tomllib.loads(text)["a"] == '[b]\nc = 1 """ d\n""'
    assert locate(text) == {("a",): 1, ("e",): 5, ("g",): 8, ("j",): 9, ("l",): 10}


def test_arrays_over_lines():
    text = """a = [ # [
  1, [2,
  "]"], # ,
  { b = 3, c.d = [4] },
]
e = []
"""
    assert locate(text) == {
        ("a",): 1,
        ("a", 0): 2,
        ("a", 1): 2,
        ("a", 1, 0): 2,
        ("a", 1, 1): 3,
        ("a", 2): 4,
        ("a", 2, "b"): 4,
        ("a", 2, "c"): 4,
        ("a", 2, "c", "d"): 4,
        ("a", 2, "c", "d", 0): 4,
        ("e",): 6,
    }


def test_arrays_of_tables():
    text = "[[a]]\nx = 1\n[[a]]\n[a.b]\ny = 2\n[[a.c]]\n[[a.c]]\nz = 3\n"
    assert locate(text) == {
        ("a",): 1,
        ("a", 0): 1,
        ("a", 0, "x"): 2,
        ("a", 1): 3,
        ("a", 1, "b"): 4,
        ("a", 1, "b", "y"): 5,
        ("a", 1, "c"): 6,
        ("a", 1, "c", 0): 6,
        ("a", 1, "c", 1): 7,
        ("a", 1, "c", 1, "z"): 8,
    }


def test_implicit_table_has_the_line_of_its_first_mention():
    assert locate("[b]\n\n[a.c]\nx.y = 1\n[a]\n") == {
        ("b",): 1,
        ("a",): 3,
        ("a", "c"): 3,
        ("a", "c", "x"): 4,
        ("a", "c", "x", "y"): 4,
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends(end):
    text = end.join(["a = '''", "x", "'''", "b = [", "1]", "c = 2 # d", ""])
    lines = locate(text)
    assert (lines[("a",)], lines[("b",)], lines[("c",)]) == (1, 4, 6)


# Texts that end early or start something when a scanner is careless.
_nasty = st.text(alphabet="ab#=[]{}.,'\"\\ \n", max_size=8)
_bare = st.text(alphabet="ab-_1", min_size=1, max_size=3)
_space = st.sampled_from(["", " ", "\t "])
_gap = st.sampled_from(["", " ", "\n", " # x = [\n", "\n\n  "])


@st.composite
def strings(draw):
    """Draws the text of a string, in one of the four notations."""
    text = draw(_nasty)
    quote = draw(st.sampled_from(['"', "'", '"""', "'''"]))
    if quote[0] == "'":
        text = text.replace("'", "")
    else:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return quote + (text if len(quote) == 3 else text.replace("\n", "")) + quote


@st.composite
def values(draw, depth=2):
    kind = draw(st.integers(0, 5 if depth else 3))
    if kind < 2:
        scalars = [
            "1",
            "0x1f",
            "-1_0",
            "1e9",
            "nan",
            "true",
            "1979-05-27 07:32:00",
            "07:32:00",
        ]
        return draw(st.sampled_from(scalars))
    if kind < 4:
        return draw(strings())
    items = draw(st.lists(values(depth=depth - 1), max_size=3))
    if kind == 4:
        text = "".join(f"{draw(_gap)}{item}{draw(_gap)}," for item in items)
        comma = draw(st.booleans()) or not items
        return f"[{text if comma else text[:-1]}{draw(_gap)}]"
    keys = draw(st.lists(_bare, min_size=len(items), max_size=len(items), unique=True))
    pairs = [
        f"{draw(_space)}{k}{draw(_space)}= {v}"
        for k, v in zip(keys, items, strict=True)
    ]
    return "{" + ",".join(pairs) + " }"


@st.composite
def documents(draw):
    """Draws a document, and the lines of its own keys and headers."""
    text, expected = "", {}
    names = draw(st.lists(_bare, max_size=4, unique=True))
    for name in ["", *names]:
        if name:
            text += draw(_gap)
            text += "" if text.endswith("\n") or not text else "\n"
            expected[(name,)] = text.count("\n") + 1
            text += f"[{draw(_space)}{name}{draw(_space)}] # y = '''\n"
        for key in draw(st.lists(_bare, max_size=3, unique=True)):
            path = (name, key) if name else (f"top{key}",)
            text += draw(st.sampled_from(["", "\n", "# z = 1\n", "  "]))
            expected[path] = text.count("\n") + 1
            text += f"{path[-1]}{draw(_space)}={draw(_space)}{draw(values())}\n"
    return text, expected


@settings(max_examples=200, deadline=None)
@given(documents())
def test_every_key_is_found_where_it_stands(document):
    text, expected = document
    parsed = tomllib.loads(text)
    lines = locate(text)
    assert set(lines) == set(leaves(parsed))
    for path, line in expected.items():
        assert lines[path] == line
    for path, line in lines.items():
        if isinstance(path[-1], str):
            assert path[-1] in text.split("\n")[line - 1]
