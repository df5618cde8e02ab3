"""The project file: where it is looked for, what it may say, what commands take from it."""

from pathlib import Path

import pytest
from commands import kgen

from kgen.emit.placement import Placement
from kgen.errors import SpecError
from kgen.project import find_project

pytestmark = pytest.mark.without_jax

SPEC = '[kernel]\nname = "gemm"\nop = "matmul"\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The top of an empty git repository."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


def refused(text, name="kgen.toml"):
    """What is wrong with a project file of that text."""
    Path(name).write_text(text)
    with pytest.raises(SpecError) as caught:
        find_project()
    return str(caught.value).splitlines()


class TestSearch:
    def test_there_is_none(self, here):
        (here / "pyproject.toml").write_text('[project]\nname = "kgen"\n')
        assert find_project() is None

    def test_everything_left_out(self, here):
        Path("kgen.toml").touch()
        found = find_project()
        assert (found.path, found.specs) == (Path("kgen.toml"), (Path("specs"),))
        assert (found.out, found.templates) == (Path("generated"), ())
        assert (found.placement, found.copies_specs) == (Placement(), False)

    def test_the_nearest_upwards_counts(self, here, monkeypatch):
        Path("kgen.toml").write_text('out = "far"\n')
        Path("a/b").mkdir(parents=True)
        monkeypatch.chdir("a/b")
        assert find_project().out == Path("../../far")
        Path("../pyproject.toml").write_text('[tool.kgen]\nout = "near"\n')
        assert find_project().out == Path("../near")

    def test_the_top_of_the_repository_ends_it(self, here):
        (here.parent / "kgen.toml").touch()
        assert find_project() is None
        (here / ".git").rmdir()
        assert find_project() is not None

    def test_of_a_directory_that_is_not_there_yet(self, here):
        Path("kgen.toml").touch()
        assert find_project(Path("new/kernels")).path == Path("kgen.toml")

    def test_both_files(self, here):
        Path("kgen.toml").touch()
        assert refused("[tool.kgen]\n", "pyproject.toml") == [
            "kgen.toml: KG005 pyproject.toml beside it has [tool.kgen], too",
            "  hint: keep one of them",
        ]

    def test_a_pyproject_of_others_is_not_judged(self, here):
        Path("pyproject.toml").write_text("[broken")
        assert find_project() is None


class TestContent:
    def test_everything(self, here):
        Path("LICENSE_HEADER").write_text("Copyright\n")
        Path("kgen.toml").write_text("""
            specs = ["specs", "more/one.toml"]
            out = "src/kernels"
            templates = ["templates"]
            [vendor]
            package = "mylib.kernels"
            relative_imports = true
            header_file = "LICENSE_HEADER"
            specs = true
            """)
        found = find_project()
        assert found.specs == (Path("specs"), Path("more/one.toml"))
        assert (found.out, found.templates) == (
            Path("src/kernels"),
            (Path("templates"),),
        )
        assert found.copies_specs
        assert found.placement == Placement(
            package="mylib.kernels", relative_imports=True, header="Copyright\n"
        )

    def test_in_pyproject(self, here):
        Path("pyproject.toml").write_text(
            '[tool.kgen]\nout = "k"\n[tool.kgen.vendor]\nheader = "H"\n'
        )
        found = find_project()
        assert (found.out, found.placement.header) == (Path("k"), "H")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (
                'spec = ["specs"]\n',
                [
                    "kgen.toml:1: KG003 unknown key spec",
                    "  allowed: specs, out, templates, vendor",
                    "  hint: did you mean specs?",
                ],
            ),
            (
                "\n[vendr]\nx = 1\n",
                [
                    "kgen.toml:2: KG003 unknown table [vendr]",
                    "  allowed: specs, out, templates, vendor",
                    "  hint: did you mean vendor?",
                ],
            ),
            (
                'header = "x"\n',
                [
                    "kgen.toml:1: KG003 unknown key header",
                    "  allowed: specs, out, templates, vendor",
                    "  hint: it belongs in [vendor]",
                ],
            ),
            (
                "[vendor]\nrelative_import = true\n",
                [
                    "kgen.toml:2: KG003 unknown key vendor.relative_import",
                    "  allowed: package, relative_imports, header, header_file, specs",
                    "  hint: did you mean vendor.relative_imports?",
                ],
            ),
            (
                'specs = "specs"\n',
                [
                    'kgen.toml:1: KG004 specs = "specs" is a string, an array is expected',
                    '  hint: write ["specs"]',
                ],
            ),
            (
                'specs = ["a",\n  2]\n',
                ["kgen.toml:2: KG004 specs[1] = 2 is an integer, a string is expected"],
            ),
            (
                "out = 1\n",
                ["kgen.toml:1: KG004 out = 1 is an integer, a string is expected"],
            ),
            (
                "[vendor]\nspecs = 1\n",
                [
                    "kgen.toml:2: KG004 vendor.specs = 1 is an integer,"
                    " a boolean is expected"
                ],
            ),
            (
                "vendor = 1\n",
                ["kgen.toml:1: KG004 vendor = 1 is an integer, a table is expected"],
            ),
            ('out = ""\n', ["kgen.toml:1: KG005 out has 0 characters"]),
            (
                "out = generated\n",
                [
                    "kgen.toml:1: KG001 invalid TOML at column 7: invalid value",
                    "  hint: strings stand in quotes; booleans are true and false",
                ],
            ),
            (
                '[vendor]\npackage = "my-lib"\n',
                [
                    'kgen.toml:2: KG005 vendor.package = "my-lib" is not a package',
                    '  allowed: identifiers between dots, such as "mylib.kernels"',
                ],
            ),
            (
                '[vendor]\nheader = "x"\nheader_file = "y"\n',
                [
                    "kgen.toml:3: KG005 vendor.header and vendor.header_file are both given",
                    "  hint: keep one of them",
                ],
            ),
            (
                '[vendor]\nheader_file = "none.txt"\n',
                [
                    'kgen.toml:2: KG005 vendor.header_file = "none.txt" cannot be read:'
                    " no such file or directory"
                ],
            ),
            (
                '[vendor]\nheader = "-*- coding: latin-1 -*-"\n',
                [
                    "kgen.toml:2: KG005 vendor.header declares an encoding in its first"
                    " two lines; modules are UTF-8"
                ],
            ),
            (
                '[vendor]\nheader = "a\\u2028b"\n',
                [
                    "kgen.toml:2: KG005 vendor.header has a character that cannot be"
                    " printed: 'a\\u2028b'"
                ],
            ),
            (
                '[vendor]\nheader = "@generated by kgen 9"\n',
                ["kgen.toml:2: KG005 vendor.header claims that kgen wrote it"],
            ),
        ],
    )
    def test_refused(self, here, text, told):
        assert refused(text) == told

    def test_lines_of_pyproject(self, here):
        text = '[project]\nname = "x"\n\n[tool.kgen]\nouts = "k"\n'
        assert refused(text, "pyproject.toml")[0] == (
            "pyproject.toml:5: KG003 unknown key tool.kgen.outs"
        )
        assert refused("[tool]\nkgen = 1\n", "pyproject.toml") == [
            "pyproject.toml:2: KG004 tool.kgen is an integer, a table is expected"
        ]

    def test_all_problems_are_told(self, here):
        assert len(refused("a = 1\nb = 2\n[vendor]\nc = 3\n")) > 3


class TestCommands:
    @pytest.fixture
    def project(self, here, monkeypatch):
        Path("mine").mkdir()
        Path("mine/gemm.toml").write_text(SPEC)
        Path("sub").mkdir()
        Path("kgen.toml").write_text('specs = ["mine"]\nout = "out"\n')
        monkeypatch.chdir("sub")
        return here

    def test_render_needs_no_arguments(self, project):
        outcome = kgen("render", "--no-verify")
        assert outcome.stderr.splitlines() == [
            "rendered ../out/gemm.py (unverified)",
            "1 module rendered.",
        ]
        assert kgen("render", "--no-verify", "--check").exit_code == 0

    def test_the_command_line_comes_first(self, project):
        Path("other.toml").write_text(SPEC.replace("gemm", "other"))
        outcome = kgen("render", "--no-verify", "--out", "here", "other.toml")
        assert outcome.stderr.splitlines()[0] == "rendered here/other.py (unverified)"

    def test_verify_needs_no_arguments(self, project):
        Path("../mine/gemm.toml").write_text(SPEC + "[tile]\nm = 100\n")
        outcome = kgen("verify")
        assert outcome.exit_code == 3
        assert outcome.stderr.startswith("../mine/gemm.toml:5: KG101 ")

    def test_no_shipped_specs_instead(self, project):
        Path("../kgen.toml").write_text("")
        outcome = kgen("render", "--no-verify")
        assert (outcome.exit_code, outcome.stderr) == (
            5,
            "error: ../specs: no such file or directory\n",
        )

    @pytest.mark.parametrize("command", ["render", "verify", "vendor"])
    def test_an_invalid_project_file(self, project, command):
        Path("../kgen.toml").write_text("x = 1\n")
        outcome = kgen(command, *(["dest"] if command == "vendor" else []))
        assert outcome.exit_code == 3
        assert outcome.stderr.startswith("../kgen.toml:1: KG003 unknown key x\n")
        assert not Path("dest").exists()

    def test_render_leaves_vendored_files_alone(self, project):
        Path("../out").mkdir()
        Path("../out/kgen.lock").touch()
        outcome = kgen("render", "--no-verify")
        assert (outcome.exit_code, outcome.stderr.splitlines()) == (
            2,
            [
                "error: ../out is kept by `kgen vendor`: it holds kgen.lock",
                "  hint: kgen vendor --update ../out, or kgen vendor --check ../out; for"
                " `kgen render` to keep it, remove ../out/kgen.lock",
            ],
        )
        for wrong, told in (
            (("none",), "error: none: no such file or directory\n"),
            (("--templates", "none"), "error: --templates none: no such directory\n"),
        ):
            assert kgen("render", "--no-verify", *wrong).stderr == told
        assert kgen("render", "--no-verify", "--stdout").exit_code == 0
