"""`kgen vendor`: what it writes, keeps, removes and tells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import kgen

from kgen.emit import provenance
from kgen.vendor import lockfile

pytestmark = pytest.mark.without_jax

ROOT = Path(__file__).resolve().parents[2]
SPEC = '[kernel]\nname = "{name}"\nop = "matmul"\n[tile]\nm = 64\nn = {n}\n'


# What is rendered does not matter here, and should not take long.
TEMPLATE = """\"\"\"{{{{ doc }}}}\"\"\"

{{% include "partials/provenance.jinja" %}}

{body}
"""
TEMPLATES = ("--templates", "templates")


def add_templates():
    bodies = {
        "matmul": "TILE_N = {{ tile_n }}",
        "test_matmul": "import {{ name }} as module",
    }
    Path("templates").mkdir()
    for name, body in bodies.items():
        path = Path("templates", f"{name}.py.jinja")
        path.write_text(TEMPLATE.format(body=body))


def add_spec(name, directory="specs", n=64, kernel=None):
    path = Path(directory, f"{name}.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SPEC.format(name=kernel or name, n=n))
    return path


def tree(directory="dest"):
    """Every file below `directory` with its text."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in sorted(Path(directory).rglob("*"))
        if path.is_file()
    }


def vendor(*arguments):
    """The exit code and what was told, without verification."""
    outcome = kgen("vendor", "--no-verify", *TEMPLATES, *arguments)
    assert outcome.stdout == ""
    return outcome.exit_code, outcome.stderr.splitlines()


def check(*arguments):
    """The exit code, the lines about differing files, and the diff."""
    outcome = kgen("vendor", "--no-verify", "--check", "dest", *TEMPLATES, *arguments)
    lines = outcome.stderr.splitlines()
    return (
        outcome.exit_code,
        [li for li in lines if "/" in li.split(" (")[0]],
        outcome.stdout,
    )


def edit(path):
    with Path("dest", path).open("a") as file:
        file.write("# mine\n")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with two specs, which is no git repository."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    add_templates()
    add_spec("a")
    add_spec("b")
    return tmp_path


@pytest.fixture
def vendored(here):
    """`dest` holds both kernels; their specs lie elsewhere."""
    assert vendor("dest")[0] == 0
    return here


@pytest.fixture
def copied(here):
    """`dest` holds both kernels and their specs, which are here no more."""
    Path("kgen.toml").write_text("[vendor]\nspecs = true\n")
    assert vendor("dest")[0] == 0
    Path("specs").rename("elsewhere")
    return here


class TestWriting:
    def test_modules_tests_and_the_lock(self, here):
        assert vendor("dest") == (
            0,
            [
                "rendered dest/a.py (unverified)",
                "rendered dest/b.py (unverified)",
                "2 modules rendered.",
            ],
        )
        files = ["a.py", "b.py", "tests/test_a.py", "tests/test_b.py"]
        found = tree()
        assert sorted(found) == sorted([*files, "kgen.lock"])
        lock = lockfile.read(Path("dest"))
        assert [entry.path for entry in lock.files] == files
        for entry in lock.files:
            assert entry.sha256 == lockfile.digest_of(found[entry.path])
            assert entry.template_digest in found[entry.path]

    @pytest.mark.parametrize("settings", ["", 'header = "Copyright"\n'])
    def test_files_name_the_command_that_makes_them_again(self, here, settings):
        Path("kgen.toml").write_text(f"[vendor]\n{settings}")
        vendor("dest")
        found = tree()
        for path in ("a.py", "tests/test_a.py"):
            assert (
                "; edit the spec instead and update DEST (with kgen.lock):\n"
                "#   kgen vendor --update DEST specs/a.toml\n"
            ) in found[path]
            assert provenance.read(found[path]).spec == "specs/a.toml"
            assert provenance.read(found[path]).intact
            assert "kgen render" not in found[path]
            assert max(map(len, found[path].splitlines())) <= provenance.WIDTH

    def test_files_from_before_kgen_vendor_was_named_are_kgens(self, vendored):
        kgen("render", "--no-verify", *TEMPLATES, "--out", "other")
        Path("other/a.py").rename("dest/a.py")
        assert check()[1] == ["stale dest/a.py (kgen writes it otherwise now)"]
        assert vendor("--update", "dest")[0] == 0
        assert check() == (0, [], "")

    def test_the_lock_does_not_depend_on_the_way(self, here):
        vendor("one")
        vendor("two", "specs/b.toml", "-j", 1)
        vendor("two", "specs/a.toml")
        assert tree("one") == tree("two")

    def test_again_nothing_is_touched(self, vendored):
        before = [path.stat().st_mtime_ns for path in Path("dest").rglob("*")]
        assert vendor("dest")[1][-1] == "2 modules unchanged."
        assert vendor("--update", "dest")[1][-1] == "2 modules unchanged."
        after = [path.stat().st_mtime_ns for path in Path("dest").rglob("*")]
        assert after == before

    def test_other_kernels_stay(self, vendored):
        add_spec("a", n=128)
        add_spec("b", n=128)
        vendor("dest", "specs/a.toml")
        assert "TILE_N = 128\n" in tree()["a.py"]
        assert "TILE_N = 64\n" in tree()["b.py"]
        vendor("--update", "dest", "specs/a.toml")
        assert len(lockfile.read(Path("dest")).files) == 4

    def test_settings_of_the_project_of_dest(self, here):
        Path("dest").mkdir()
        Path("dest/kgen.toml").write_text(
            '[vendor]\nrelative_imports = true\nheader = "Copyright"\nspecs = true\n'
        )
        vendor("dest")
        found = tree()
        assert "from .. import a as module" in found["tests/test_a.py"]
        for path in ("a.py", "tests/test_a.py"):
            assert found[path].startswith("# Copyright\n")
            assert provenance.read(found[path]).intact
        assert found["specs/a.toml"] == Path("specs/a.toml").read_text()
        assert found["__init__.py"] == found["tests/__init__.py"] == ""
        assert check()[0] == 0

    def test_what_kgen_render_keeps_is_not_taken_over(self, here):
        rendered = kgen("render", "--no-verify", *TEMPLATES, "--out", "mine")
        assert rendered.exit_code == 0
        before = tree("mine")
        for options in ((), ("--update",), ("--force",)):
            assert vendor("mine", *options) == (
                2,
                [
                    "error: mine has files of `kgen render`, such as mine/a.py, and no"
                    " kgen.lock",
                    "  allowed: a directory that has a kgen.lock, or nothing of"
                    " `kgen render`",
                    "  hint: choose another directory; `kgen render` keeps the files in"
                    " this one",
                ],
            )
        assert tree("mine") == before

    @pytest.mark.parametrize("text", ['out = "mine"\n', 'specs = ["specs"]\n'])
    def test_where_kgen_render_will_write_is_not_taken_over(self, here, text):
        Path("kgen.toml").write_text(text)
        out = "mine" if "mine" in text else "generated"
        code, lines = vendor(f"./x/../{out}")
        assert (code, lines[0]) == (
            2,
            f"error: x/../{out} is where `kgen render` writes to: `out` of kgen.toml",
        )
        assert not Path(out).exists()
        assert vendor("dest")[0] == 0

    def test_a_project_of_vendored_files_alone_may_have_any_directory(self, here):
        Path("kgen.toml").write_text("[vendor]\nspecs = true\n")
        assert vendor("generated")[0] == 0
        Path("generated/kgen.lock").unlink()
        assert vendor("--update", "generated")[0] == 0

    def test_without_its_lock_it_is_kgen_renders_again(self, vendored):
        render = ("render", "--no-verify", *TEMPLATES, "--out", "dest")
        assert kgen(*render).exit_code == 2
        Path("dest/kgen.lock").unlink()
        assert kgen(*render).exit_code == 0
        assert "kgen render specs/a.toml" in tree()["a.py"]

    def test_an_init_file_of_others_is_left_alone(self, here):
        Path("dest").mkdir()
        Path("dest/kgen.toml").write_text("[vendor]\nrelative_imports = true\n")
        Path("dest/__init__.py").write_text("x = 1\n")
        vendor("dest", "--force")
        assert tree()["__init__.py"] == "x = 1\n"
        Path("dest/tests/__init__.py").unlink()
        assert check()[1] == [
            "missing dest/tests/__init__.py (relative imports need it)"
        ]

    def test_specs_outside_a_directory_of_specs_are_copied(self, here):
        Path("kgen.toml").write_text("[vendor]\nspecs = true\n")
        add_spec("c", "kernels")
        vendor("dest", "kernels")
        assert "#   kgen vendor --update DEST specs/c.toml\n" in tree()["c.py"]
        assert check() == (0, [], "")
        assert check("kernels") == (0, [], "")

    def test_two_specs_with_one_copy(self, here):
        Path("kgen.toml").write_text("[vendor]\nspecs = true\n")
        add_spec("c", "one")
        add_spec("c", "two", kernel="d")
        assert vendor("dest", "one", "two") == (
            2,
            [
                "error: one/c.toml and two/c.toml would both be copied to dest/specs/c.toml",
                "  hint: keep specs below a directory called specs, or rename one",
            ],
        )
        assert not Path("dest").exists()


class TestCheck:
    def test_all_is_up_to_date(self, vendored):
        assert vendor("--check", "dest") == (0, ["5 files up to date."])

    def test_it_neither_writes_nor_imports_jax(self, vendored):
        edit("a.py")
        before = tree()
        code = (
            "import sys\nfrom kgen.cli import cli\n"
            "try: cli(['vendor', '--check', 'dest', '--templates', 'templates'])\n"
            "except SystemExit as end: print(end.code, 'jax' in sys.modules)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "1 False"
        assert tree() == before

    def test_a_changed_spec(self, vendored):
        add_spec("a", n=128)
        assert check() == (
            1,
            [
                "stale dest/a.py (its spec changed)",
                "stale dest/tests/test_a.py (its spec changed)",
            ],
            "",
        )

    def test_another_kgen(self, vendored, monkeypatch):
        monkeypatch.setattr("kgen.emit.render.__version__", "9.9")
        code, lines, _ = check()
        assert (code, len(lines)) == (1, 4)
        assert lines[0] == "stale dest/a.py (written by kgen 0.1.0)"

    def test_an_edited_file_with_the_diff(self, vendored):
        edit("a.py")
        code, lines, diff = check()
        assert (code, lines) == (
            1,
            ["edited dest/a.py (it was edited since kgen wrote it)"],
        )
        head, *_, last = diff.splitlines()
        assert (head, last) == ("--- dest/a.py as kgen writes it", "+# mine")

    @pytest.mark.parametrize(
        ("old", "hint"),
        [
            (
                "a.py",
                "kgen vendor --update dest; it keeps edited files, and overwrites them"
                " with --force",
            ),
            (None, "kgen vendor --update dest"),
        ],
    )
    def test_the_hint_says_what_keeps_edits(self, vendored, old, hint):
        if old:
            edit(old)
        else:
            add_spec("a", n=128)
        done = kgen("vendor", "--check", "dest")
        assert done.stderr.splitlines()[-1] == f"  hint: {hint}"

    def test_the_hint_has_what_the_check_was_given(self, vendored):
        add_spec("a", n=128)
        done = kgen("vendor", "--check", "dest", "specs/a.toml", "--no-verify", "-q")
        assert (done.exit_code, done.stderr) == (1, "")
        done = kgen("vendor", "--check", "dest", "specs/a.toml", *TEMPLATES)
        assert done.stderr.splitlines()[-1] == (
            "  hint: kgen vendor --update dest specs/a.toml --templates templates"
        )

    def test_quiet_prints_no_diff(self, vendored):
        edit("a.py")
        done = kgen("vendor", "--check", "dest", "--no-verify", *TEMPLATES, "-q")
        assert (done.exit_code, done.stdout, done.stderr) == (1, "", "")

    def test_an_edited_file_of_a_changed_spec(self, vendored):
        edit("a.py")
        add_spec("a", n=128)
        _, lines, diff = check()
        assert lines[0] == (
            "edited dest/a.py (it was edited since kgen wrote it;"
            " apart from that, its spec changed)"
        )
        assert diff.startswith(
            "--- dest/a.py as kgen writes it now (its spec changed)\n"
        )

    def test_missing_files(self, vendored):
        Path("dest/a.py").unlink()
        Path("dest/tests/test_b.py").unlink()
        add_spec("c")
        assert check()[:2] == (
            1,
            [
                "missing dest/a.py (it was deleted)",
                "missing dest/tests/test_b.py (it was deleted)",
                "missing dest/c.py (its spec specs/c.toml is new)",
                "missing dest/tests/test_c.py (its spec specs/c.toml is new)",
            ],
        )

    def test_a_foreign_file(self, here):
        Path("dest").mkdir()
        Path("dest/a.py").write_text("x = 1\n")
        assert "foreign dest/a.py (it was not written by kgen)" in check()[1]

    def test_a_kernel_with_another_name(self, vendored):
        add_spec("a", kernel="c")
        assert check()[:2] == (
            1,
            [
                "missing dest/c.py (specs/a.toml did not make it before)",
                "missing dest/tests/test_c.py (specs/a.toml did not make it before)",
                "orphaned dest/a.py (specs/a.toml does not make it any more)",
                "orphaned dest/tests/test_a.py (specs/a.toml does not make it any more)",
            ],
        )

    def test_a_spec_that_moved(self, vendored):
        Path("specs/a.toml").rename("specs/c.toml")
        assert check()[1][0] == (
            "stale dest/a.py (its spec was specs/a.toml, and is specs/c.toml)"
        )

    def test_a_spec_that_is_gone(self, vendored):
        Path("specs/a.toml").unlink()
        assert check()[:2] == (
            1,
            [
                "orphaned dest/a.py (its spec specs/a.toml is gone)",
                "orphaned dest/tests/test_a.py (its spec specs/a.toml is gone)",
            ],
        )

    def test_single_specs_say_nothing_of_others(self, vendored):
        add_spec("b", n=128)
        Path("dest/b.py").unlink()
        assert check("specs/a.toml")[:2] == (0, [])

    def test_other_settings(self, vendored):
        Path("kgen.toml").write_text('[vendor]\nheader = "Copyright"\n')
        code, lines, _ = check()
        assert (code, len(lines)) == (1, 4)
        assert lines[0] == "stale dest/a.py (the settings in [vendor] changed)"

    def test_a_missing_lock(self, vendored):
        Path("dest/kgen.lock").unlink()
        assert check()[:2] == (1, ["missing dest/kgen.lock"])

    def test_a_lock_that_is_behind(self, vendored):
        path = Path("dest/kgen.lock")
        lock = lockfile.read(Path("dest"))
        path.write_text(lockfile.write_text(lock.model_copy(update={"files": ()})))
        assert check()[:2] == (
            1,
            ["stale dest/kgen.lock (it does not say what is there)"],
        )

    def test_files_that_nobody_knows(self, vendored):
        kgen("render", "--no-verify", *TEMPLATES, "--out", "other", add_spec("c"))
        Path("other/c.py").rename("dest/c.py")
        Path("specs/c.toml").unlink()
        assert check()[:2] == (
            1,
            ["orphaned dest/c.py (neither a spec nor kgen.lock knows it)"],
        )
        code, lines = vendor("--update", "dest")
        assert code == 1
        assert lines[-3:] == [
            "orphaned dest/c.py (neither a spec nor kgen.lock knows it; kept)",
            "2 modules unchanged, 1 orphaned.",
            "  hint: orphans that were edited, or are not in kgen.lock, are yours to"
            " delete",
        ]
        assert vendor("--check", "dest")[1][-1] == lines[-1]

    def test_a_checkout_with_crlf(self, copied):
        for path in Path("dest").rglob("*.*"):
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        assert check() == (0, [], "")

    def test_unverified_modules_are_no_verified_ones(self, vendored):
        outcome = kgen("vendor", "--check", "dest", *TEMPLATES)
        assert outcome.exit_code == 1
        assert "stale dest/a.py (it is unverified)" in outcome.stderr

    def test_without_specs_the_lock_is_all(self, vendored):
        Path("specs").rename("elsewhere")
        note = "There are no specs here: files are compared with kgen.lock alone."
        assert vendor("--check", "dest") == (0, [note, "4 files up to date."])
        edit("a.py")
        Path("dest/b.py").unlink()
        assert vendor("--check", "dest")[1][1:3] == [
            "edited dest/a.py (it is not what kgen.lock says)",
            "missing dest/b.py (it was deleted)",
        ]

    @pytest.mark.parametrize("text", ["", '[vendor]\npackage = "x"\n'])
    def test_a_project_file_may_be_there_for_vendor_alone(self, vendored, text):
        Path("specs").rename("elsewhere")
        Path("kgen.toml").write_text(text)
        code, lines = vendor("--check", "dest")
        assert lines[0].startswith("There are no specs here")
        if text:
            hint = "kgen vendor --update dest --templates templates --no-verify SPECS"
            assert (code, lines[1:]) == (
                1,
                [
                    "stale dest/kgen.lock (the settings in [vendor] changed)",
                    "1 file stale, 4 up to date.",
                    f"  hint: with the specs: {hint}",
                ],
            )
        else:
            assert (code, lines[1:]) == (0, ["4 files up to date."])
        assert vendor("--update", "dest")[0] == 2

    def test_specs_that_a_project_file_names_must_be_there(self, vendored):
        Path("kgen.toml").write_text('specs = ["spcs"]\n')
        assert vendor("--check", "dest") == (
            5,
            ["error: spcs: no such file or directory"],
        )


class TestCopies:
    def test_they_are_the_source(self, copied):
        assert check() == (0, [], "")
        add_spec("a", "dest/specs", n=128)
        assert check()[1] == [
            "stale dest/a.py (its spec changed)",
            "stale dest/tests/test_a.py (its spec changed)",
        ]
        assert vendor("--update", "dest")[0] == 0
        assert check() == (0, [], "")

    def test_a_comment_in_a_copy_makes_the_lock_stale(self, copied):
        edit("specs/a.toml")
        assert check()[1] == ["stale dest/kgen.lock (it does not say what is there)"]
        vendor("--update", "dest")
        assert check() == (0, [], "")
        assert "# mine" in tree()["specs/a.toml"]

    def test_a_deleted_copy_takes_its_kernel_along(self, copied):
        Path("dest/specs/a.toml").unlink()
        assert check()[1] == [
            "orphaned dest/a.py (its spec specs/a.toml is gone)",
            "orphaned dest/tests/test_a.py (its spec specs/a.toml is gone)",
        ]
        vendor("--update", "dest")
        assert sorted(tree()) == [
            "b.py",
            "kgen.lock",
            "specs/b.toml",
            "tests/test_b.py",
        ]

    def test_named_specs_come_first(self, copied):
        Path("elsewhere").rename("specs")
        add_spec("a", n=128)
        assert check()[0] == 0
        assert check("specs")[1] == [
            "stale dest/a.py (its spec changed)",
            "stale dest/tests/test_a.py (its spec changed)",
            "stale dest/specs/a.toml (the spec that it is a copy of changed)",
        ]
        vendor("--update", "dest", "specs")
        assert check() == check("specs") == (0, [], "")

    def test_an_edited_copy_is_kept(self, copied):
        Path("elsewhere").rename("specs")
        edit("specs/a.toml")
        add_spec("a", n=128)
        code, lines = vendor("--update", "dest", "specs")
        assert code == 1
        assert (
            "edited dest/specs/a.toml (it was edited since kgen wrote it; kept)"
            in lines
        )
        assert "# mine" in tree()["specs/a.toml"]
        vendor("--update", "--force", "dest", "specs")
        assert "# mine" not in tree()["specs/a.toml"]

    def test_a_new_spec_beside_them(self, copied):
        add_spec("c", "dest/specs")
        assert check()[1] == [
            "missing dest/c.py (its spec specs/c.toml is new)",
            "missing dest/tests/test_c.py (its spec specs/c.toml is new)",
        ]
        vendor("--update", "dest")
        assert check() == (0, [], "")

    def test_copies_are_found_though_the_lock_is_lost(self, copied):
        lock, before = Path("dest/kgen.lock"), tree()
        lock.unlink()
        assert check()[0] == 1
        assert vendor("--update", "dest")[0] == 0
        assert tree() == before
        assert check() == (0, [], "")

    def test_copies_are_given_up(self, copied):
        Path("elsewhere").rename("specs")
        Path("kgen.toml").write_text("")
        assert check()[1] != []
        assert vendor("--update", "dest")[0] == 0
        assert not list(Path("dest/specs").iterdir())
        assert check() == (0, [], "")


class TestUpdate:
    def test_edited_files_are_kept(self, vendored):
        edit("a.py")
        add_spec("a", n=128)
        add_spec("b", n=128)
        code, lines = vendor("--update", "dest")
        assert (code, lines) == (
            1,
            [
                "rendered dest/tests/test_a.py (unverified)",
                "edited dest/a.py (it was edited since kgen wrote it;"
                " apart from that, its spec changed; kept)",
                "rendered dest/b.py (unverified)",
                "2 modules rendered, 1 edited.",
                "  hint: to overwrite edited files: kgen vendor --update --force dest"
                " --templates templates --no-verify",
            ],
        )
        assert tree()["a.py"].endswith("# mine\n")
        assert check()[1] == [lines[1].replace("; kept", "")]
        assert vendor("--update", "--force", "dest")[0] == 0
        assert check() == (0, [], "")

    def test_foreign_files_are_kept(self, here):
        Path("dest").mkdir()
        Path("dest/a.py").write_text("x = 1\n")
        code, lines = vendor("--update", "dest")
        assert code == 1
        assert "foreign dest/a.py (it was not written by kgen; kept)" in lines
        assert tree()["a.py"] == "x = 1\n"
        assert lockfile.read(Path("dest")).entry("a.py") is None

    def test_orphans_that_nobody_touched_are_removed(self, vendored):
        Path("specs/a.toml").unlink()
        edit("tests/test_a.py")
        assert vendor("dest")[1][:2] == [
            "unchanged dest/b.py (unverified)",
            "orphaned dest/a.py (its spec specs/a.toml is gone; kept)",
        ]
        assert vendor("--update", "dest") == (
            1,
            [
                "unchanged dest/b.py (unverified)",
                "removed dest/a.py (its spec specs/a.toml is gone)",
                "orphaned dest/tests/test_a.py (its spec specs/a.toml is gone;"
                " it was edited since kgen wrote it; kept)",
                "1 module unchanged, 1 removed, 1 orphaned.",
                "  hint: orphans that were edited, or are not in kgen.lock, are yours"
                " to delete",
            ],
        )
        assert sorted(tree()) == [
            "b.py",
            "kgen.lock",
            "tests/test_a.py",
            "tests/test_b.py",
        ]
        assert lockfile.read(Path("dest")).entry("tests/test_a.py") is not None

    def test_a_lock_is_no_proof_that_a_file_is_kgens(self, vendored):
        Path("dest/mine.py").write_text("x = 1\n")
        lock = lockfile.read(Path("dest"))
        mine = lock.entry("a.py").model_copy(
            update={"path": "mine.py", "sha256": lockfile.digest_of("x = 1\n")}
        )
        forged = lock.model_copy(update={"files": (*lock.files, mine)})
        Path("dest/kgen.lock").write_text(lockfile.write_text(forged))
        assert vendor("--update", "dest")[0] == 1
        assert tree()["mine.py"] == "x = 1\n"

    def test_all_is_repaired(self, vendored):
        new = tree()
        Path("dest/a.py").unlink()
        Path("dest/tests/test_b.py").write_bytes(b"")
        Path("dest/kgen.lock").unlink()
        assert vendor("--update", "--force", "dest")[0] == 0
        assert tree() == new

    def test_a_kernel_that_fails_verification_stays_as_it_was(
        self, copied, monkeypatch
    ):
        before = tree()
        monkeypatch.setattr("kgen.verify.verify", refuse("a"))
        add_spec("a", "elsewhere", n=128)
        add_spec("b", "elsewhere", n=128)
        outcome = kgen("vendor", "dest", "elsewhere", *TEMPLATES)
        assert outcome.exit_code == 4
        after = tree()
        changed = {path for path in after if after[path] != before[path]}
        assert changed == {"b.py", "tests/test_b.py", "specs/b.toml", "kgen.lock"}
        entry = lockfile.read(Path("dest")).entry("a.py")
        assert entry.sha256 == lockfile.digest_of(before["a.py"])


def refuse(name):
    """A verifier that refuses one kernel."""
    from kgen.verify.request import LevelResult, Verdict

    def verify(request, **_):
        status = "failed" if request.name == name else "passed"
        level = LevelResult(level="lower", status=status, seconds=0.1)
        return Verdict(levels=(level,), jax_version="0.12.0")

    return verify


class TestRefusals:
    @pytest.mark.parametrize("mode", [["--update"], []])
    def test_there_are_no_specs(self, vendored, mode):
        Path("specs").rename("elsewhere")
        before = tree()
        assert vendor(*mode, "dest") == (
            2,
            [
                "error: there are no specs here for dest",
                "  hint: name them: kgen vendor DEST SPECS; or let a kgen.toml do it",
            ],
        )
        assert tree() == before

    def test_specs_say_nothing_of_those_outside_of_specs(self, vendored):
        add_spec("other", "kernels")
        assert vendor("dest", "kernels")[0] == 0
        before = tree()
        assert check() == (0, [], "")
        assert vendor("--update", "dest")[0] == 0
        assert tree() == before
        Path("kernels/other.toml").unlink()
        add_spec("third", "kernels")
        vendor("--update", "dest", "kernels")
        assert "other.py" not in tree()

    def test_shipped_specs_are_added_and_never_a_reason_to_remove(self, vendored):
        Path("specs").rename("elsewhere")
        shipped = "specs/fp16_128x128.toml"
        assert vendor("--update", "dest", shipped)[0] == 5
        code, lines = vendor("dest", shipped)
        assert (code, lines[1]) == (0, "rendered dest/fp16_128x128.py (unverified)")
        assert "a.py" in tree()

    def test_dest_is_a_file(self, here):
        Path("dest").write_text("x")
        for mode in ([], ["--update"], ["--check"]):
            assert vendor(*mode, "dest") == (5, ["error: dest is not a directory"])
        assert Path("dest").read_text() == "x"

    def test_dest_cannot_be_written(self, here, monkeypatch):
        Path("dest").mkdir()
        monkeypatch.setattr(os, "access", lambda _, mode: mode == os.R_OK)
        assert vendor("dest") == (
            5,
            [
                "error: cannot write to dest: permission denied",
                "  hint: check the permissions, or choose another directory",
            ],
        )
        assert tree() == {}

    @pytest.mark.parametrize("mode", [["--update"], ["--check"], []])
    def test_a_damaged_lock(self, vendored, mode):
        with Path("dest/kgen.lock").open("a") as file:
            file.write("<<<<<<< HEAD\n")
        before = tree()
        code, lines = vendor(*mode, "dest")
        assert code == 5
        assert lines[0].startswith("error: dest/kgen.lock:")
        assert tree() == before

    @pytest.mark.parametrize("name", ["tests", "a.py", "kgen.lock"])
    @pytest.mark.parametrize("mode", [["--update", "--force"], ["--check"], []])
    def test_links_are_not_followed(self, vendored, name, mode):
        Path("dest", name).rename("real")
        Path("dest", name).symlink_to("../real")
        before = tree("."), sorted(Path().rglob("*"))
        code, lines = vendor(*mode, "dest")
        assert code == 5
        assert lines[0].startswith(f"error: dest/{name} is a symbolic link")
        assert (tree("."), sorted(Path().rglob("*"))) == before

    def test_dest_itself_may_be_a_link(self, vendored):
        Path("dest").rename("real")
        Path("dest").symlink_to("real")
        assert vendor("--update", "dest")[0] == 0
        assert check() == (0, [], "")

    def test_invalid_specs_stop_everything(self, here):
        add_spec("a", n=100)
        assert vendor("dest")[0] == 3
        assert not Path("dest").exists()

    def test_a_broken_template(self, vendored, monkeypatch):
        from kgen.errors import TemplateError

        def render(plan, **_):
            raise TemplateError(f"no {plan.name}")

        monkeypatch.setattr("kgen.emit.render.render", render)
        before = tree()
        assert vendor("--update", "dest") == (
            4,
            ["error: no a", "error: no b", "2 modules not written."],
        )
        assert vendor("--check", "dest", "-j", 1)[0] == 4
        assert tree() == before

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                ["--check", "--update"],
                "--check goes with neither --update nor --force.",
            ),
            (["--check", "--force"], "--check goes with neither --update nor --force."),
            (["-q", "-v"], "--quiet and --verbose exclude each other."),
        ],
    )
    def test_options(self, here, options, message):
        code, lines = vendor("dest", *options)
        assert (code, lines[-1]) == (2, f"Error: {message}")
