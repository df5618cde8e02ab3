"""Templates place what the plan decided: no arithmetic, no comparison, shallow tests."""

import jinja2
import jinja2.nodes
import pytest

from kgen.resources import templates_dir

TEMPLATES = sorted(templates_dir().rglob("*.jinja"))
# What decides or computes; a template does neither.
FORBIDDEN = (
    jinja2.nodes.BinExpr,
    jinja2.nodes.UnaryExpr,
    jinja2.nodes.Compare,
    jinja2.nodes.CondExpr,
    jinja2.nodes.Call,
    jinja2.nodes.Assign,
    jinja2.nodes.Macro,
)


def parse(text):
    environment = jinja2.Environment(autoescape=False)  # noqa: S701
    return environment.parse(text)


def faults(tree):
    for kind in FORBIDDEN:
        for node in tree.find_all(kind):
            yield f"line {node.lineno}: {type(node).__name__}"
    for branch in tree.find_all(jinja2.nodes.If):
        if not isinstance(branch.test, jinja2.nodes.Name):
            yield f"line {branch.lineno}: a test of more than a name"
        if branch.else_ or branch.elif_:
            yield f"line {branch.lineno}: else"
        for inner in branch.find_all(jinja2.nodes.If):
            yield f"line {inner.lineno}: a test within a test"


def test_there_are_templates():
    assert {"matmul.py.jinja", "test_matmul.py.jinja"} <= {t.name for t in TEMPLATES}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_only_places(path):
    assert list(faults(parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{{ a + 1 }}", "line 1: Add"),
        ("{% if a == 1 %}{% endif %}", "line 1: Compare"),
        ("{% if not a %}{% endif %}", "line 1: Not"),
        (
            "\n{% if a %}{% if b %}{% endif %}{% endif %}",
            "line 2: a test within a test",
        ),
        ("{% if a %}{% else %}x{% endif %}", "line 1: else"),
        ("{% set a = 1 %}", "line 1: Assign"),
    ],
)
def test_faults_are_seen(text, fault):
    assert fault in list(faults(parse(text)))
