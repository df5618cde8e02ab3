"""Templates of a user: what they may override, and what is said of those that err."""

import re
import sys
from pathlib import Path

import pytest
from commands import kgen
from made import plan
from oldest import newest_only

from kgen.emit import provenance
from kgen.emit.render import render
from kgen.errors import TemplateError
from kgen.resources import templates_dir

pytestmark = newest_only

EXTENDS = '{% extends "kgen/matmul.py.jinja" %}\n'
SPEC = '[kernel]\nname = "gemm"\nop = "matmul"\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, text, directory="ours"):
    path = Path(directory, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return Path(directory)


def rendered(*directories, text=""):
    return render(
        plan(Path(), text), templates=directories, verified=False, prove=False
    )


def block(name, *lines):
    return "\n".join([f"{{% block {name} %}}", *lines, "{% endblock %}", ""])


class TestOverriding:
    def test_a_block_is_extended(self, here):
        ours = write(
            "matmul.py.jinja",
            EXTENDS + block("constants", "{{ super() }}", "OURS = {{ tile_m }}"),
        )
        source, plain = rendered(ours).source, rendered().source
        assert "\nOURS = 128\n" in source
        assert set(plain.splitlines()) - set(source.splitlines()) == {
            line for line in plain.splitlines() if "template matmul" in line
        }

    def test_a_template_of_the_same_name_is_another(self, here):
        shipped = (templates_dir() / "matmul.py.jinja").read_text("utf-8")
        ours = write("matmul.py.jinja", shipped.replace("_block(", "_spec_of("))
        assert "def _spec_of(shape" in rendered(ours).source

    def test_a_partial_is_another_in_the_shipped_template(self, here):
        shipped = (templates_dir() / "partials" / "store_whole.jinja").read_text(
            "utf-8"
        )
        ours = write(
            "partials/store_whole.jinja",
            shipped.replace("SMEM must", "Shared memory must"),
        )
        assert "# Shared memory must outlive" in rendered(ours).source

    def test_the_standalone_test_is_another(self, here):
        ours = write(
            "test_matmul.py.jinja",
            '{% extends "kgen/test_matmul.py.jinja" %}\n'
            + block("tests", "{{ super() }}", "", "def test_ours():", "    pass"),
        )
        assert "def test_ours():" in rendered(ours).test_source
        assert "def test_ours():" not in rendered(ours).source

    def test_the_first_directory_that_has_a_name_wins(self, here):
        first = write("matmul.py.jinja", EXTENDS + block("checks", "X = 1"), "first")
        second = write("matmul.py.jinja", EXTENDS + block("checks", "X = 2"), "second")
        assert "\nX = 1\n" in rendered(first, second).source
        assert "\nX = 2\n" in rendered(second, first).source


class TestDigest:
    def test_it_covers_what_is_used(self, here):
        plain = rendered().template_digest
        unused = write("other.jinja", "anything")
        assert rendered(unused).template_digest == plain
        digests = {plain}
        for number, text in enumerate(("X = 1", "X = 2")):
            directory = f"ours{number}"
            write("ours.jinja", text, directory)
            ours = write(
                "matmul.py.jinja",
                EXTENDS + block("checks", '{% include "ours.jinja" %}'),
                directory,
            )
            digests.add(rendered(ours).template_digest)
        assert len(digests) == 3

    def test_the_shipped_one_that_is_extended_counts(self, here, monkeypatch):
        ours = write("matmul.py.jinja", EXTENDS)
        before = rendered(ours).template_digest
        other = here / "shipped"
        (other / "partials").mkdir(parents=True)
        for path in templates_dir().rglob("*.jinja"):
            text = path.read_text("utf-8")
            (other / path.relative_to(templates_dir())).write_text(text, "utf-8")
        with (other / "matmul.py.jinja").open("a", encoding="utf-8") as file:
            file.write("\n")
        monkeypatch.setattr("kgen.emit.render.templates_dir", lambda: other)
        assert rendered(ours).template_digest != before

    def test_one_that_may_be_missing(self, here):
        include = '{% include "maybe.jinja" ignore missing %}'
        first = write("matmul.py.jinja", EXTENDS + block("checks", include), "first")
        missing = rendered(first).template_digest
        second = write("matmul.py.jinja", EXTENDS + block("checks", include), "second")
        write("maybe.jinja", "X = 1\n", "second")
        found = rendered(second)
        assert "\nX = 1\n" in found.source
        assert found.template_digest != missing


def test_the_example_of_the_docs(here):
    docs = Path(__file__).parents[2] / "docs" / "plugins.md"
    (example,) = re.findall(r"```jinja\n(.*?)```", docs.read_text("utf-8"), re.DOTALL)
    ours = write("matmul.py.jinja", example)
    assert "\n\n\ndef is_supported(a, b):\n" in rendered(ours).source


def test_the_docs_name_every_block():
    docs = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text("utf-8")
    for path in templates_dir().glob("*.jinja"):
        for name in re.findall(r"{% block (\w+) %}", path.read_text("utf-8")):
            assert f"`{name}`" in docs


OURS = "template ours/matmul.py.jinja, line"
FAULTS = {
    "undefined": (
        block("constants", "{{ super() }}", "OURS = {{ tilem }}"),
        f"{OURS} 4: 'tilem' is undefined",
    ),
    "invalid": (
        block("constants", "{{ super() }}", "", "OURS = = {{ tile_m }}"),
        f"{OURS} 5: yields invalid Python: invalid syntax: OURS = = 128",
    ),
    "private": (
        block("imports", "{{ super() }}", "from jax._src import core"),
        f"{OURS} 4: uses jax._src, which is private to JAX",
    ),
    "private by attribute": (
        block("checks", "def f():", "    return jax._src.core"),
        f"{OURS} 4: uses jax._src, which is private to JAX",
    ),
    "kgen": (
        block("imports", "{{ super() }}", "from kgen.arch import ARCHS"),
        f"{OURS} 4: uses kgen, which no generated file may depend on",
    ),
    "code of data": (
        block("checks", "X = eval('1')"),
        f"{OURS} 3: uses eval, which makes code of data",
    ),
    "statement": (
        block("checks", "X = 1", "print(X)"),
        f"{OURS} 4: yields a statement that does not belong there: Expr",
    ),
    "literal": (
        block("constants", "TILE_M, TILE_N, TILE_K = 64, {{ tile_n }}, 64"),
        f"{OURS} 3: sets TILE_M = 64, where the plan says 128",
    ),
    "docstring": (
        block("docstring", '"""Ours."""'),
        f"{OURS} 3: yields another docstring than meant",
    ),
    "computed name": (
        block("checks", "{% include name %}"),
        f"{OURS} 3: the name of a template must be written out here: the digest in the"
        " module covers what is used",
    ),
    "missing": (
        block("checks", '{% include "none.jinja" %}'),
        f"{OURS} 3: template none.jinja is missing",
    ),
    "outside": (
        block("checks", '{% include "/etc/passwd" %}'),
        f"{OURS} 3: template /etc/passwd is missing",
    ),
    "outside by its parent": (
        block("checks", '{% include "../plan.py" %}'),
        f"{OURS} 3: template ../plan.py is missing",
    ),
    "private attribute": (
        block("checks", "{{ cycler.__init__.__globals__ }}"),
        f"{OURS} 3: access to attribute '__init__' of 'type' object is unsafe\n"
        "  hint: a template may use the values that it is given",
    ),
    "private attribute by a format": (
        block("checks", "X = '{{ '{0.__class__}'.format(1) }}'"),
        f"{OURS} 3: access to attribute '__class__' of 'int' object is unsafe\n"
        "  hint: a template may use the values that it is given",
    ),
    "random": (
        block("checks", "X = '{{ lipsum() }}'"),
        f"{OURS} 3: 'lipsum' is undefined",
    ),
    "no end": (
        block(
            "checks",
            "{% set r = range(2000) | list %}",
            "{% for x in r %}{% for y in r %}{% endfor %}{% endfor %}",
        ),
        f"{OURS} 4: it does not end within 1,000,000 steps",
    ),
    "text too large": (
        block("checks", "{{ 'x' * 10000000000 }}"),
        f"{OURS} 3: * would make something too large",
    ),
    "number too large": (
        block("checks", "{{ 2 ** 10000000000 }}"),
        f"{OURS} 3: ** would make something too large",
    ),
    "long line": (
        block("checks", "X = = " + 20 * "{{ tile_m }} 1234567 "),
        f"{OURS} 3: yields invalid Python: invalid syntax: X = = "
        + 9 * "128 1234567 "
        + "...",
    ),
    "raises": (
        block("checks", "", "{{ tile_m + 'x' }}"),
        f"{OURS} 4: TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    ),
    "filter": (
        block("checks", "{{ tile_m | wide }}"),
        f"{OURS} 3: No filter named 'wide'.",
    ),
    "unclosed": (
        "{% block checks %}\n",
        f"{OURS} 2: Unexpected end of template. Jinja was looking for the following"
        " tags: 'endblock'. The innermost block that needs to be closed is 'block'.",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_told_with_template_and_line(here, fault):
    text, message = FAULTS[fault]
    ours = write("matmul.py.jinja", EXTENDS + text)
    with pytest.raises(TemplateError) as caught:
        rendered(ours, text='[kernel]\ndoc = "Multiplies."\n')
    assert str(caught.value) == message


def test_the_first_statement_is_judged_without_a_docstring(here):
    text = block("docstring", "open('x')")
    with pytest.raises(TemplateError) as caught:
        rendered(write("matmul.py.jinja", EXTENDS + text))
    what = "yields a statement that does not belong there: Expr"
    assert str(caught.value) == f"{OURS} 3: {what}"


def test_tracing_goes_on_after_rendering(here):
    def trace(*_):
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        rendered()
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is trace


def test_a_fault_in_a_partial_is_told_there(here):
    ours = write(
        "partials/store.jinja", "X = 1\n{% if stores_whole %}\nY = )\n{% endif %}\n"
    )
    with pytest.raises(
        TemplateError, match=r"^template ours/partials/store\.jinja, line 3:"
    ):
        rendered(ours)


def test_a_template_that_calls_itself(here):
    text = EXTENDS + block("checks", "{{ self.checks() }}")
    with pytest.raises(TemplateError) as caught:
        rendered(write("matmul.py.jinja", text))
    assert "template ours/matmul.py.jinja, line " in str(caught.value)
    assert "it includes, extends or calls itself without an end" in str(caught.value)


def test_a_fault_after_a_filter_is_told_with_its_line(here):
    text = "{% filter upper %}\nx = 1\n{% endfilter %}\ny = )"
    ours = write("matmul.py.jinja", EXTENDS + block("checks", text))
    with pytest.raises(TemplateError) as caught:
        rendered(ours)
    assert str(caught.value).startswith(f"{OURS} 6: yields invalid Python")


def test_a_fault_where_no_line_can_be_told_names_the_template(here):
    text = "{% filter first %}\nx = 1\n{% endfilter %}\ny = )"
    ours = write("matmul.py.jinja", EXTENDS + block("checks", text))
    with pytest.raises(TemplateError) as caught:
        rendered(ours)
    message = str(caught.value)
    assert message.startswith("template ours/matmul.py.jinja, at line ")
    assert " of its output: yields invalid Python" in message


def test_a_file_that_is_not_utf_8(here):
    ours = write("matmul.py.jinja", EXTENDS)
    (ours / "matmul.py.jinja").write_bytes(b"\xff\n")
    with pytest.raises(
        TemplateError, match=r"^template ours/matmul\.py\.jinja is not UTF-8"
    ):
        rendered(ours)


class TestProvenance:
    def test_a_dropped_comment(self, here):
        ours = write("partials/provenance.jinja", "# Ours.\n")
        with pytest.raises(TemplateError) as caught:
            rendered(ours)
        assert str(caught.value) == (
            "template matmul.py.jinja drops the provenance comment\n"
            '  hint: {% include "partials/provenance.jinja" %} right after the docstring'
        )

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (
                "{{ kgen_version }}",
                "9.9",
                "changes the provenance comment: it says '9.9', where '",
            ),
            (
                "{{ template_digest }}",
                provenance.NO_DIGEST,
                f"changes the provenance comment: it says '{provenance.NO_DIGEST}'",
            ),
            (
                "{{ verified }}",
                "verified: static, lower, simulate",
                "changes the provenance comment: whether the module is verified",
            ),
        ],
    )
    def test_a_comment_that_says_what_is_not_true(self, here, old, new, message):
        shipped = (templates_dir() / "partials/provenance.jinja").read_text("utf-8")
        assert old in shipped
        ours = write("partials/provenance.jinja", shipped.replace(old, new))
        with pytest.raises(TemplateError) as caught:
            rendered(ours)
        assert message in str(caught.value)


class TestCommand:
    @pytest.fixture(autouse=True)
    def spec(self, here):
        write("gemm.toml", SPEC, "specs")
        write("matmul.py.jinja", EXTENDS + block("checks", "X = 1"))

    def test_another_template_is_a_difference(self, here):
        assert kgen("render", "--no-verify", "--templates", "ours").exit_code == 0
        assert "\nX = 1\n" in Path("generated/gemm.py").read_text()
        ours = kgen("render", "--no-verify", "--check", "--templates", "ours")
        assert (ours.exit_code, ours.stderr) == (0, "2 files up to date.\n")
        plain = kgen("render", "--no-verify", "--check")
        assert (plain.exit_code, plain.stderr.splitlines()) == (
            1,
            [
                "differs generated/gemm.py (its template changed)",
                "1 file differs, 1 up to date.",
            ],
        )

    def test_the_project_file_names_them(self, here):
        Path("kgen.toml").write_text('templates = ["ours"]\n')
        assert kgen("render", "--no-verify").exit_code == 0
        assert "\nX = 1\n" in Path("generated/gemm.py").read_text()

    def test_they_are_verified(self, here):
        # Without its checks, the module lacks a name.
        levels = ("--level", "static", "--no-cache", "--shape", "128,128,64")
        outcome = kgen("verify", "specs", "--templates", "none", *levels)
        assert (outcome.exit_code, outcome.stderr) == (
            2,
            "error: --templates none: no such directory\n",
        )
        outcome = kgen("verify", "specs", "--templates", "ours", *levels)
        assert outcome.exit_code == 4
        assert "name '_check_operands' is not defined" in outcome.stdout

    def test_several_directories(self, here):
        write("matmul.py.jinja", EXTENDS + block("checks", "X = 2"), "theirs")
        options = ("--templates", "theirs", "--templates", "ours")
        kgen("render", "--no-verify", *options)
        assert "\nX = 2\n" in Path("generated/gemm.py").read_text()

    def test_nothing_is_written_of_a_wrong_template(self, here):
        write("matmul.py.jinja", EXTENDS + block("checks", "X = )"), "bad")
        outcome = kgen("render", "--no-verify", "--templates", "bad")
        assert outcome.exit_code == 4
        assert outcome.stderr.splitlines()[0] == (
            "error: template bad/matmul.py.jinja, line 3: yields invalid Python: "
            "unmatched ')': X = )"
        )
        assert not Path("generated").exists()

    @pytest.mark.parametrize(
        ("directory", "message"),
        [
            ("none", "error: --templates none: no such directory\n"),
            (
                "specs/gemm.toml",
                "error: --templates specs/gemm.toml: not a directory\n",
            ),
            ("specs", "error: --templates specs: no templates (*.jinja) in it\n"),
            (
                "slip",
                "error: slip/matmull.py.jinja overrides no template, and none refers to"
                " it\n  hint: did you mean matmul.py.jinja?\n",
            ),
        ],
    )
    def test_a_directory_that_is_none_of_templates(self, here, directory, message):
        write("matmull.py.jinja", EXTENDS, "slip")
        outcome = kgen("render", "--templates", directory)
        assert (outcome.exit_code, outcome.stderr) == (2, message)
        Path("kgen.toml").write_text(f'templates = ["{directory}"]\n')
        outcome = kgen("render")
        message = message.replace("--templates", "templates of kgen.toml:")
        assert (outcome.exit_code, outcome.stderr) == (2, message)

    def test_a_block_that_nothing_extended_has(self, here):
        write("matmul.py.jinja", EXTENDS + block("constnts", "X = 1"), "mine")
        outcome = kgen("render", "--no-verify", "--templates", "mine")
        assert outcome.exit_code == 4
        assert outcome.stderr.splitlines()[:2] == [
            "error: template mine/matmul.py.jinja, line 2: there is no block constnts"
            " in what it extends",
            "  hint: did you mean constants?",
        ]

    def test_blocks_within_blocks_and_blocks_that_are_called(self, here):
        text = block("checks", "X = 1\n{% block mine %}{% endblock %}{{ self.its() }}")
        text += block("its", "Y = 2")
        write("matmul.py.jinja", EXTENDS + text, "mine")
        outcome = kgen("render", "--no-verify", "--templates", "mine")
        assert outcome.exit_code == 0, outcome.stderr
        assert "Y = 2" in Path("generated/gemm.py").read_text()

    def test_a_name_that_another_template_uses_is_no_slip(self, here):
        write("matmul.py.jinja", '{% extends "matmul2.py.jinja" %}\n', "two")
        write("matmul2.py.jinja", EXTENDS + block("checks", "X = 3"), "two")
        assert kgen("render", "--no-verify", "--templates", "two").exit_code == 0
        assert "\nX = 3\n" in Path("generated/gemm.py").read_text()
