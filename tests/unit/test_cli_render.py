"""`kgen render`: what it writes, tells and ends with."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import kgen

from kgen.emit import provenance
from kgen.errors import TemplateError
from kgen.verify.request import LevelResult, Verdict

pytestmark = pytest.mark.without_jax

ROOT = Path(__file__).resolve().parents[2]
SPEC = '[kernel]\nname = "{name}"\nop = "matmul"\n'


class Verifier:
    """Stands in for `kgen.verify.verify`."""

    def __init__(self):
        self.asked = []
        self.failing = {}
        self.remembered = False

    def __call__(self, request, *, timeout, cache):
        self.asked.append((request.name, timeout, cache))
        lower, simulate = ("passed", ""), ("passed", "")
        if request.name in self.failing:
            lower, simulate = ("failed", self.failing[request.name]), ("not_run", "")
        return Verdict(
            levels=(
                LevelResult(level="import", status="passed", seconds=0.4),
                LevelResult(level="static", status="passed", seconds=0.31),
                LevelResult(
                    level="lower", status=lower[0], detail=lower[1], seconds=0.93
                ),
                LevelResult(level="simulate", status=simulate[0], seconds=2.44),
            ),
            jax_version="0.12.0",
            remembered=self.remembered,
        )


@pytest.fixture
def verifier(monkeypatch):
    fake = Verifier()
    monkeypatch.setattr("kgen.verify.verify", fake)
    return fake


@pytest.fixture
def here(tmp_path, monkeypatch, verifier):
    """A directory with one spec, `specs/gemm.toml`."""
    monkeypatch.chdir(tmp_path)
    add_spec("gemm")
    return tmp_path


def add_spec(name, text="", directory="specs"):
    Path(directory).mkdir(parents=True, exist_ok=True)
    path = Path(directory, f"{name}.toml")
    path.write_text(SPEC.replace("{name}", name) + text)
    return path


def tree(directory="generated"):
    """Every file below `directory` with its bytes."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(Path(directory).rglob("*"))
        if path.is_file()
    }


def told(outcome):
    """The exit code and the lines of stderr; nothing was printed on stdout."""
    assert outcome.stdout == ""
    return outcome.exit_code, outcome.stderr.splitlines()


class TestRendering:
    def test_a_module_and_its_test_are_written(self, here):
        assert told(kgen("render")) == (
            0,
            [
                "rendered generated/gemm.py (static 0.3 s, lower 0.9 s, simulate 2.4 s)",
                "1 module rendered.",
            ],
        )
        assert list(tree()) == ["gemm.py", "tests/test_gemm.py"]
        for text in tree().values():
            found = provenance.read(text.decode())
            assert (found.intact, found.verified) == (True, True)

    def test_again_nothing_is_touched(self, here, verifier):
        kgen("render")
        before = [path.stat() for path in Path("generated").rglob("*")]
        verifier.remembered = True
        assert told(kgen("render", "specs/gemm.toml")) == (
            0,
            [
                "unchanged generated/gemm.py (static, lower, simulate: remembered)",
                "1 module unchanged.",
            ],
        )
        after = [path.stat() for path in Path("generated").rglob("*")]
        assert [s.st_mtime_ns for s in after] == [s.st_mtime_ns for s in before]

    def test_only_the_test_is_restored(self, here):
        kgen("render")
        Path("generated/tests/test_gemm.py").unlink()
        code, lines = told(kgen("render", "-v"))
        assert (code, lines) == (
            0,
            [
                "rendered generated/tests/test_gemm.py "
                "(static 0.3 s, lower 0.9 s, simulate 2.4 s)",
                "unchanged generated/gemm.py",
                "1 module rendered.",
            ],
        )

    def test_unverified(self, here, verifier):
        assert told(kgen("render", "--no-verify", "--out", "x/y")) == (
            0,
            ["rendered x/y/gemm.py (unverified)", "1 module rendered."],
        )
        assert verifier.asked == []
        found = [provenance.read(text.decode()) for text in tree("x/y").values()]
        assert [(each.intact, each.verified) for each in found] == [(True, False)] * 2

    def test_the_options_reach_the_verifier(self, here, verifier):
        kgen("render", "--timeout", "7.5", "--no-cache")
        kgen("render")
        assert verifier.asked == [("gemm", 7.5, False), ("gemm", 300.0, True)]

    def test_quiet(self, here):
        assert told(kgen("render", "-q")) == (0, [])
        assert len(tree()) == 2

    @pytest.mark.parametrize("jobs", [1, 3])
    def test_the_order_is_that_of_the_specs(self, here, jobs):
        names = ["zeta", "alpha", "mid", "beta"]
        specs = [add_spec(name) for name in names]
        code, lines = told(kgen("render", *specs, "-j", jobs, "--no-verify"))
        assert code == 0
        assert lines == [
            *(f"rendered generated/{name}.py (unverified)" for name in names),
            "4 modules rendered.",
        ]

    def test_the_bytes_do_not_depend_on_the_number_of_jobs(self, here):
        add_spec("gemm2")
        add_spec("gemm3")
        kgen("render", "--out", "one", "-j", 1)
        kgen("render", "--out", "three", "-j", 3)
        assert tree("one") == tree("three")
        assert len(tree("one")) == 6


class TestFailedVerification:
    def test_nothing_of_that_spec_is_written(self, here, verifier):
        add_spec("other")
        verifier.failing["gemm"] = "m=128, n=128, k=64:\n  wrong at [0, 1]"
        assert told(kgen("render", "-q")) == (
            4,
            [
                "error: gemm is not verified: lower failed after 0.9 s with JAX 0.12.0",
                "    m=128, n=128, k=64:",
                "      wrong at [0, 1]",
            ],
        )
        assert list(tree()) == ["other.py", "tests/test_other.py"]

    def test_the_summary_counts_it(self, here, verifier):
        add_spec("other")
        verifier.failing["gemm"] = "wrong"
        assert (
            told(kgen("render"))[1][-1] == "1 module rendered, 1 failed verification."
        )

    def test_the_old_file_stays(self, here, verifier):
        kgen("render")
        before = tree()
        add_spec("gemm", "[tile]\nn = 64\n")
        verifier.failing["gemm"] = "wrong"
        assert kgen("render").exit_code == 4
        assert tree() == before

    def test_a_broken_template(self, here, verifier, monkeypatch):
        def render(plan, **_):
            raise TemplateError(f"template matmul.py.jinja has no {plan.name}")

        monkeypatch.setattr("kgen.emit.render.render", render)
        assert told(kgen("render")) == (
            4,
            [
                "error: template matmul.py.jinja has no gemm",
                "1 module not written.",
            ],
        )
        assert verifier.asked == []
        assert kgen("render", "--check").exit_code == 4


class TestOwnership:
    def test_an_edited_file_is_refused_before_it_is_verified(self, here, verifier):
        kgen("render")
        with Path("generated/gemm.py").open("a") as file:
            file.write("# mine\n")
        before = tree()
        add_spec("other")
        verifier.asked.clear()
        assert told(kgen("render")) == (
            5,
            [
                "error: generated/gemm.py was edited since kgen wrote it",
                "  hint: edit the spec instead, or overwrite with --force",
                "rendered generated/other.py (static 0.3 s, lower 0.9 s, simulate 2.4 s)",
                "1 module rendered, 1 not written.",
            ],
        )
        assert [name for name, *_ in verifier.asked] == ["other"]
        assert before.items() <= tree().items()
        assert kgen("render", "--force").exit_code == 0
        assert b"# mine" not in Path("generated/gemm.py").read_bytes()

    def test_an_edit_during_verification_is_kept(self, here, verifier, monkeypatch):
        def edit(*args, **options):
            Path("generated").mkdir()
            Path("generated/gemm.py").write_text("mine = 1\n")
            return verifier(*args, **options)

        monkeypatch.setattr("kgen.verify.verify", edit)
        assert told(kgen("render"))[1][:2] == [
            "error: generated/gemm.py was not written by kgen",
            "  hint: choose another directory, or overwrite with --force",
        ]
        assert tree() == {"gemm.py": b"mine = 1\n"}

    def test_competing_failures(self, here, verifier):
        add_spec("other")
        Path("generated").mkdir()
        Path("generated/gemm.py").write_text("mine = 1\n")
        verifier.failing["other"] = "wrong"
        code, lines = told(kgen("render"))
        assert code == 5
        assert lines[-1] == "1 module failed verification, 1 not written."

    def test_orphans_are_told_and_kept(self, here):
        kgen("render")
        Path("specs/gemm.toml").rename("specs/gemm.off")
        add_spec("other")
        code, lines = told(kgen("render"))
        assert code == 0
        assert lines[1:] == [
            "orphaned generated/gemm.py (no given spec makes it)",
            "orphaned generated/tests/test_gemm.py (no given spec makes it)",
            "  hint: delete what is no longer needed",
            "1 module rendered, 2 orphaned.",
        ]
        assert len(tree()) == 4
        assert len(told(kgen("render", "specs/other.toml"))[1]) == 2


class TestOrphans:
    """Only files from specs that the given ones would hold are orphans."""

    @pytest.fixture
    def two(self, here):
        Path("specs/gemm.toml").unlink()
        add_spec("a1", directory="specs/a")
        add_spec("b1", directory="specs/b")
        kgen("render", "--no-verify")

    def check(self, *arguments):
        return kgen("render", "--no-verify", "--check", *arguments)

    @pytest.mark.parametrize(
        "given", ["specs/a", "specs/../specs/a", "specs/a/a1.toml"]
    )
    def test_a_subdirectory_says_nothing_about_others(self, two, given):
        assert told(self.check(given)) == (0, ["2 files up to date."])
        assert len(told(kgen("render", "--no-verify", given))[1]) == 2

    @pytest.mark.parametrize("given", ["specs", "specs/b", "."])
    def test_each_directory_tells_of_its_own(self, two, given):
        add_spec("b2", directory="specs/b")
        Path("specs/b/b1.toml").unlink()
        code, lines = told(self.check(given))
        assert code == 1
        assert "orphaned generated/b1.py (no given spec makes it)" in lines
        assert self.check("specs/a").exit_code == 0

    def test_a_spec_tells_of_its_own_old_name(self, two):
        path = Path("specs/b/b1.toml")
        path.write_text(path.read_text().replace("b1", "b2"))
        for given in (path, "specs/b", "specs"):
            code, lines = told(self.check(given))
            assert code == 1
            assert "orphaned generated/b1.py (no given spec makes it)" in lines

    def test_specs_elsewhere_leave_none(self, here):
        for name in ("a", "b"):
            add_spec(f"{name}1", directory=name)
        kgen("render", "--no-verify", "a", "b")
        assert told(self.check("a")) == (0, ["2 files up to date."])
        assert self.check("specs").stderr.count("orphaned") == 0

    def test_an_edited_one_is_told_to_be_edited(self, two):
        Path("specs/b/b1.toml").unlink()
        with Path("generated/b1.py").open("a") as file:
            file.write("# mine\n")
        assert told(self.check()) == (
            1,
            [
                "orphaned generated/b1.py "
                "(no given spec makes it; it was edited since kgen wrote it)",
                "orphaned generated/tests/test_b1.py (no given spec makes it)",
                "  hint: delete what is no longer needed; look at the edits first",
                "2 files orphaned, 2 up to date.",
            ],
        )


class TestCheck:
    def test_all_is_up_to_date(self, here, verifier):
        kgen("render")
        verifier.asked.clear()
        assert told(kgen("render", "--check")) == (
            0,
            ["2 files up to date."],
        )
        assert verifier.asked == []

    def test_everything_that_can_be_wrong(self, here):
        for name in ("differs", "edited", "foreign", "old"):
            add_spec(name)
        kgen("render")
        Path("generated/gemm.py").unlink()
        add_spec("differs", "[tile]\nn = 64\n")
        with Path("generated/edited.py").open("a") as file:
            file.write("# mine\n")
        Path("generated/foreign.py").write_text("mine = 1\n")
        Path("specs/old.toml").unlink()
        before = tree()
        assert told(kgen("render", "--check")) == (
            1,
            [
                "differs generated/differs.py (its spec changed)",
                "differs generated/tests/test_differs.py (its spec changed)",
                "edited generated/edited.py (it was edited since kgen wrote it)",
                "foreign generated/foreign.py (it was not written by kgen)",
                "missing generated/gemm.py",
                "orphaned generated/old.py (no given spec makes it)",
                "orphaned generated/tests/test_old.py (no given spec makes it)",
                "  hint: delete what is no longer needed",
                "2 files differ, 1 missing, 1 edited, 1 foreign, "
                "2 orphaned, 3 up to date.",
            ],
        )
        assert tree() == before

    def test_single_specs_say_nothing_about_orphans(self, here):
        add_spec("other")
        kgen("render")
        assert told(kgen("render", "--check", "specs/gemm.toml")) == (
            0,
            ["2 files up to date."],
        )

    def test_unverified_files_are_no_verified_ones(self, here):
        kgen("render", "--no-verify")
        assert told(kgen("render", "--check")) == (
            1,
            [
                "differs generated/gemm.py (it is unverified)",
                "differs generated/tests/test_gemm.py (it is unverified)",
                "2 files differ.",
            ],
        )
        assert kgen("render", "--check", "--no-verify").exit_code == 0

    def test_one_byte(self, here):
        kgen("render")
        path = Path("generated/gemm.py")
        path.write_bytes(path.read_bytes().replace(b"128", b"129", 1))
        assert told(kgen("render", "--check"))[0] == 1

    def test_a_checkout_with_crlf(self, here):
        kgen("render")
        path = Path("generated/gemm.py")
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        assert kgen("render", "--check").exit_code == 0

    def test_the_differences_are_shown(self, here):
        kgen("render")
        add_spec("gemm", "[pipeline]\nmax_concurrent_steps = 3\n")
        outcome = kgen("render", "--check", "--diff")
        assert outcome.exit_code == 1
        assert outcome.stdout.startswith(
            "--- generated/gemm.py\n+++ generated/gemm.py\n@@ "
        )
        assert (
            "\n-MAX_CONCURRENT_STEPS = 4\n+MAX_CONCURRENT_STEPS = 3\n" in outcome.stdout
        )

    def test_a_directory_in_the_way(self, here):
        Path("generated/gemm.py").mkdir(parents=True)
        assert told(kgen("render", "--check")) == (
            5,
            [
                "error: cannot write generated/gemm.py: "
                "there is a directory of that name",
                "2 files not compared.",
            ],
        )


class TestDiff:
    def test_nothing_is_written_nor_verified(self, here, verifier):
        outcome = kgen("render", "--diff")
        assert outcome.exit_code == 0
        assert outcome.stdout.startswith(
            "--- /dev/null\n+++ generated/gemm.py\n@@ -0,0 +1,"
        )
        assert "\n--- /dev/null\n+++ generated/tests/test_gemm.py\n" in outcome.stdout
        assert outcome.stderr.splitlines() == [
            "missing generated/gemm.py",
            "missing generated/tests/test_gemm.py",
            "2 files missing.",
        ]
        assert not Path("generated").exists()
        assert verifier.asked == []

    @pytest.mark.skipif(not Path("/usr/bin/patch").exists(), reason="needs patch")
    @pytest.mark.parametrize("end", ["", "\n", "x", "\x0c\n\u2028 \x85\n"])
    def test_patch_can_apply_it(self, here, end):
        kgen("render")
        new = tree()
        path = Path("generated/gemm.py")
        path.write_text(path.read_text() + end)
        diff = kgen("render", "--diff").stdout
        subprocess.run(["/usr/bin/patch", "-p0"], input=diff.encode(), check=True)
        assert tree() == new

    def test_a_binary_file(self, here):
        Path("generated").mkdir()
        Path("generated/gemm.py").write_bytes(b"\xff")
        outcome = kgen("render", "--diff")
        assert outcome.stdout.startswith("generated/gemm.py is not UTF-8 text\n---")


class TestStdout:
    def test_the_module_only(self, here):
        outcome = kgen("render", "--stdout")
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        assert not Path("generated").exists()
        kgen("render")
        assert outcome.stdout.encode() == tree()["gemm.py"]

    def test_a_failed_verification_prints_nothing_there(self, here, verifier):
        verifier.failing["gemm"] = "wrong"
        assert told(kgen("render", "--stdout")) == (
            4,
            [
                "error: gemm is not verified: lower failed after 0.9 s with JAX 0.12.0",
                "    wrong",
            ],
        )
        assert kgen("render", "--stdout", "--no-verify").exit_code == 0

    def test_one_module_at_a_time(self, here):
        add_spec("other")
        assert told(kgen("render", "--stdout")) == (
            2,
            [
                "error: --stdout prints one module, and the specs describe 2: "
                "gemm, other",
                "  hint: name a spec file without a [matrix], or use --out",
            ],
        )


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--stdout", "--check"],
                "Error: --stdout goes with neither --check nor --diff.",
            ),
            (["-q", "-v"], "Error: --quiet and --verbose exclude each other."),
            (
                ["--timeout", "nan"],
                "Error: Invalid value for '--timeout': nan is not a number of seconds.",
            ),
            (
                ["-j", "0"],
                "Error: Invalid value for '-j' / '--jobs': 0 is not in the range x>=1.",
            ),
        ],
    )
    def test_refused(self, here, arguments, message):
        code, lines = told(kgen("render", *arguments))
        assert (code, lines[-1]) == (2, message)
        assert not Path("generated").exists()

    def test_invalid_specs_stop_everything(self, here):
        add_spec("bad", "[tile]\nm = 100\n")
        add_spec("worse", "[tile]\nmm = 1\n")
        code, lines = told(kgen("render"))
        assert code == 3
        places = [line.split()[0] for line in lines if line.startswith("specs/")]
        assert places == ["specs/worse.toml:5:", "specs/bad.toml:5:"]
        assert lines[-1] == "Found 2 problems."
        assert not Path("generated").exists()

    def test_no_specs(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, lines = told(kgen("render", "mine.toml"))
        assert (code, lines) == (5, ["error: mine.toml: no such file or directory"])

    @pytest.mark.parametrize("command", ["render", "verify"])
    def test_the_whole_catalogue_is_never_meant(self, command, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, lines = told(kgen(command))
        assert (code, lines[0]) == (2, "error: there is no specs/ here")
        assert not list(tmp_path.iterdir())

    def test_without_specs_here_the_shipped_ones_are_rendered(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        spec = "specs/fp16_128x128.toml"
        assert told(kgen("render", spec, "--no-verify")) == (
            0,
            [
                f"No {spec} here: this is what kgen brings along.",
                "rendered generated/fp16_128x128.py (unverified)",
                "1 module rendered.",
            ],
        )
        assert kgen("render", "specs/none.toml").exit_code == 5

    def test_the_output_directory_is_a_file(self, here, verifier):
        Path("out").write_text("x")
        assert told(kgen("render", "--out", "out"))[1][0] == (
            "error: cannot read out/tests/test_gemm.py: "
            "a file stands where a directory is expected"
        )
        assert verifier.asked == []

    def test_a_directory_that_cannot_be_written_saves_the_verification(
        self, here, verifier, monkeypatch
    ):
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert told(kgen("render")) == (
            5,
            [
                "error: cannot write to generated/tests: permission denied",
                "  hint: check the permissions, or choose another directory",
                "1 module not written.",
            ],
        )
        assert verifier.asked == []

    def test_a_full_disk(self, here, monkeypatch):
        kgen("render")
        before = tree()
        add_spec("gemm", "[tile]\nn = 64\n")

        def fsync(_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", fsync)
        assert told(kgen("render")) == (
            5,
            [
                "error: cannot write generated/tests/test_gemm.py: "
                "no space left on the disk",
                "  hint: nothing was changed; free some space and run again",
                "1 module not written.",
            ],
        )
        assert tree() == before

    def test_a_fault_of_kgen(self, here, monkeypatch):
        def render(*_, **__):
            raise ZeroDivisionError("division by zero")

        monkeypatch.setattr("kgen.emit.render.render", render)
        assert told(kgen("render")) == (
            70,
            [
                "error: kgen failed unexpectedly: ZeroDivisionError: division by zero",
                "  hint: please report this; KGEN_DEBUG=1 shows where it happened",
            ],
        )
        monkeypatch.setenv("KGEN_DEBUG", "1")
        assert told(kgen("render"))[1][0] == "Traceback (most recent call last):"


def start(*arguments, code="", **options):
    """Starts kgen in a process of its own, after `code`."""
    program = f"{code}\nfrom kgen.cli import main\nmain()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


def end(process):
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


# A verifier that starts a process which never ends, as a hanging kernel would.
HANGS = """
import pathlib, subprocess, sys, kgen.verify
def hang(request, **_):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    pathlib.Path("child").write_text(str(child.pid))
    child.wait()
    raise SystemExit
kgen.verify.verify = hang
"""


class TestProcesses:
    def test_eight_at_once(self, here):
        for name in ("one", "two"):
            add_spec(name)
        runs = [start("render", "--no-verify", "-j", 1) for _ in range(8)]
        results = [end(run) for run in runs]
        assert [code for code, *_ in results] == [0] * 8, results
        kgen("render", "--no-verify", "--out", "alone")
        assert tree() == tree("alone")
        for _, _, stderr in results:
            assert re.fullmatch(
                r"((rendered|unchanged) generated/\w+\.py \(unverified\)\n){3}.*\n",
                stderr,
            )

    @pytest.mark.parametrize(
        ("number", "code", "message"),
        [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "")],
    )
    def test_a_signal_stops_the_workers_and_leaves_nothing(
        self, here, number, code, message
    ):
        kgen("render")
        before = tree()
        add_spec("gemm", "[tile]\nn = 64\n")
        add_spec("other")
        run = start("render", "-j", 1, code=HANGS)
        deadline = time.monotonic() + 60
        while not (child := Path("child")).exists() or not child.read_text():
            assert run.poll() is None, end(run)
            assert time.monotonic() < deadline
            time.sleep(0.02)
        run.send_signal(number)
        assert end(run) == (code, "", message)
        with pytest.raises(ProcessLookupError):
            os.kill(int(child.read_text()), 0)
        assert tree() == before

    def test_ctrl_c_while_threads_are_started(self, here):
        code = (
            "import os, pathlib, signal, threading, time\n"
            "real = threading.Thread.start\n"
            "def start(thread):\n"
            "    real(thread)\n"
            "    if 'Pool' in thread.name:\n"
            "        while not pathlib.Path('child').exists(): time.sleep(0.01)\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "threading.Thread.start = start\n"
        )
        run = start("render", "-j", 1, code=HANGS + code)
        try:
            assert end(run) == (130, "", "interrupted\n")
        finally:
            run.kill()
            with pytest.raises(ProcessLookupError):
                os.kill(int(Path("child").read_text()), signal.SIGKILL)

    def test_a_reader_that_goes_away(self, here):
        run = start("render", "--no-verify", "--diff")
        run.stdout.close()
        run.wait(60)
        assert (run.returncode, "Error" in run.stderr.read()) == (141, False)
        run.stderr.close()

    def test_a_full_disk_behind_stdout(self, here):
        with Path("/dev/full").open("w") as full:
            run = subprocess.run(
                [sys.executable, "-m", "kgen", "render", "--no-verify", "--stdout"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                check=False,
            )
        assert (run.returncode, run.stderr) == (
            5,
            "error: [Errno 28] No space left on device\n",
        )

    def test_a_module_is_utf_8_in_any_locale(self, here):
        add_spec("gemm", 'doc = "Größe ∑"\n')
        environment = {"PYTHONIOENCODING": "latin-1"}
        run = subprocess.run(
            [sys.executable, "-m", "kgen", "render", "--no-verify", "--stdout"],
            capture_output=True,
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
            check=True,
        )
        assert "Größe ∑".encode() in run.stdout
