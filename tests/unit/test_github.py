"""`--format github`: annotations at the right lines, and a job summary in Markdown."""

import os
from pathlib import Path

import pytest
from commands import kgen

from kgen.errors import FileError
from kgen.github import Annotation, GithubReport, annotation_of
from kgen.verdicts import Result
from kgen.verify import LevelResult, Verdict

pytestmark = pytest.mark.without_jax

SPEC = '[kernel]\nname = "small"\nop = "matmul"\n[tile]\nm = 64\nn = 64\n'
RACE = "data race on slot 0\n  small.py:87: plgpu.wgmma(acc, a, b)\n  small.py:90: x"


def failed(path, label="generated/small.py", detail=RACE):
    levels = (
        LevelResult(level="import", status="passed"),
        LevelResult(level="static", status="passed", seconds=0.25),
        LevelResult(level="simulate", status="failed", detail=detail, seconds=1.0),
    )
    return Result(
        label=label, path=path, verdict=Verdict(levels=levels, jax_version="1")
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A project in a directory of a checkout, with one rendered kernel."""
    project = tmp_path / "checkout" / "kernels"
    (project / "specs").mkdir(parents=True)
    (project / "specs" / "small.toml").write_text(SPEC)
    monkeypatch.chdir(project)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "checkout"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert kgen("render", "--no-verify", "-q").exit_code == 0
    return project


def summary():
    return Path(os.environ["GITHUB_STEP_SUMMARY"]).read_text("utf-8")


def check(*options):
    return kgen("render", "--check", "--no-verify", "--format", "github", *options)


def test_a_summary_that_cannot_be_written_is_told_after_the_annotations(
    here, tmp_path, monkeypatch
):
    Path("generated/small.py").unlink()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    outcome = check()
    assert outcome.exit_code == 5
    assert "::error file=kernels/generated/small.py" in outcome.stdout
    assert outcome.stderr.endswith(
        f"error: cannot append to GITHUB_STEP_SUMMARY, {tmp_path}: is a directory\n"
    )


def test_an_annotation_is_one_line_whatever_it_says():
    annotation = Annotation(
        title="a, b: 100%", message="50%\r\n::error::no", path="x,y:z.py", line=7
    )
    assert str(annotation) == (
        "::error file=x%2Cy%3Az.py,line=7,title=a%2C b%3A 100%25"
        "::50%25%0D%0A::error::no"
    )


def test_an_annotation_without_a_place():
    assert str(Annotation(title="kgen", message="no")) == "::error title=kgen::no"


def test_paths_start_from_the_checkout(here):
    annotation = Annotation(title="t", message="m", path="specs/small.toml", line=2)
    assert str(annotation).startswith("::error file=kernels/specs/small.toml,line=2,")
    outside = Annotation(title="t", message="m", path="/elsewhere/x.py")
    assert str(outside).startswith("::error file=/elsewhere/x.py,line=1,")


def test_a_failed_kernel_is_annotated_at_the_first_line_of_its_own_file():
    annotation = annotation_of(failed("generated/small.py"))
    assert (annotation.path, annotation.line) == ("generated/small.py", 87)
    assert annotation.title == "kgen: simulate failed"
    assert annotation.message == f"generated/small.py\n{RACE}"


@pytest.mark.parametrize(
    ("path", "line"),
    [("specs/small.toml", None), ("generated/very_small.py", None), ("all.py", None)],
)
def test_lines_of_other_files_are_not_taken(path, line):
    assert annotation_of(failed(path)).line == line


def test_what_could_not_be_verified_is_annotated():
    result = Result(label="x.py", path="x.py", error=FileError("x.py is no text"))
    annotation = annotation_of(result)
    assert annotation.title == "kgen: not verified"
    assert annotation.message == "x.py\nx.py is no text"


def test_what_is_up_to_date_is_summed_up(here):
    outcome = check()
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert summary() == "## kgen render --check\n\n2 files up to date.\n\n"


def test_an_edited_module_is_annotated_at_the_line(here):
    module = Path("generated/small.py")
    lines = module.read_text().split("\n")
    index = next(i for i, line in enumerate(lines) if "TILE_M, TILE_N" in line)
    lines[index] += "  # mine"
    module.write_text("\n".join(lines))
    outcome = check()
    assert outcome.exit_code == 1
    assert outcome.stdout == (
        f"::error file=kernels/generated/small.py,line={index + 1},"
        "title=kgen%3A edited::generated/small.py: it was edited since kgen wrote it\n"
    )
    assert "| `generated/small.py` | edited | it was edited since kgen" in summary()


def test_missing_and_orphaned_files_are_annotated(here):
    Path("generated/small.py").unlink()
    orphan = Path("generated/tests/test_small.py")
    orphan.with_name("test_gone.py").write_bytes(orphan.read_bytes())
    outcome = check()
    assert outcome.exit_code == 1
    assert outcome.stdout == (
        "::error file=kernels/generated/small.py,line=1,title=kgen%3A missing"
        "::generated/small.py: missing\n"
        "::error file=kernels/generated/tests/test_gone.py,line=1,"
        "title=kgen%3A orphaned::generated/tests/test_gone.py: no given spec makes it\n"
    )


@pytest.mark.parametrize(
    "command", [("render", "--check"), ("verify", "--level", "static")]
)
def test_problems_of_specs_are_annotated_at_their_lines(here, command):
    Path("specs/small.toml").write_text(SPEC + "k = 60\n")
    outcome = kgen(*command, "--format", "github")
    assert outcome.exit_code == 3
    assert outcome.stdout.startswith(
        "::error file=kernels/specs/small.toml,line=7,title=kgen%3A KG104::"
    )
    assert summary().startswith(f"## kgen {command[0]}")
    assert "| `specs/small.toml:7` | KG104 " in summary()


def test_a_bad_project_file_is_annotated(here):
    Path("kgen.toml").write_text("outt = 1\n")
    outcome = check()
    assert outcome.exit_code == 3
    assert "::error file=kernels/kgen.toml,line=1,title=kgen%3A KG003::" in (
        outcome.stdout
    )


def test_vendored_files_are_annotated_with_what_was_edited(here):
    assert kgen("vendor", "dest", "--no-verify", "-q").exit_code == 0
    module = Path("dest/small.py")
    lines = module.read_text().split("\n")
    index = next(i for i, line in enumerate(lines) if "TILE_M, TILE_N" in line)
    lines[index] += "  # ```::mine"
    module.write_text("\n".join(lines))
    Path("dest/tests/test_small.py").unlink()
    outcome = kgen("vendor", "--check", "dest", "--no-verify", "--format", "github")
    assert outcome.exit_code == 1
    told = [line for line in outcome.stdout.splitlines() if line.startswith("::")]
    assert told == [
        f"::error file=kernels/dest/small.py,line={index + 1},"
        "title=kgen%3A edited::dest/small.py: it was edited since kgen wrote it",
        "::error file=kernels/dest/tests/test_small.py,line=1,"
        "title=kgen%3A missing::dest/tests/test_small.py: it was deleted",
    ]
    text = summary()
    assert text.startswith("## kgen vendor --check dest\n")
    assert "| `dest/tests/test_small.py` | missing | it was deleted |" in text
    assert "### `dest/small.py`: edited\n\n````diff\n--- dest/small.py as kgen" in text
    assert f"+{lines[index]}\n" in text


def test_verdicts_are_summed_up_in_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    passed = LevelResult(level="static", status="passed")
    with GithubReport("kgen verify") as report:
        report.verified(
            Result(label="a|b", verdict=Verdict(levels=(passed,), jax_version="1")), ""
        )
        report.verified(failed("x.py", detail="a ``` fence\n::error::no"), "")
    assert summary() == (
        "## kgen verify\n\n"
        "| kernel | static | simulate |\n"
        "| --- | --- | --- |\n"
        "| `a\\|b` | passed |  |\n"
        "| `generated/small.py` | passed | **failed** |\n\n"
        "1 verified, 1 failed.\n\n"
        "### `generated/small.py`: simulate failed\n\n"
        "````text\na ``` fence\n::error::no\n````\n\n"
    )
    # Nothing of a kernel begins a line: the runner would obey it.
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line.startswith("::")] == [
        "::error file=x.py,line=1,title=kgen%3A simulate failed"
        "::generated/small.py%0Aa ``` fence%0A::error::no"
    ]


def test_what_is_remembered_is_told_so(here):
    passed = LevelResult(level="static", status="passed")
    verdict = Verdict(levels=(passed,), jax_version="1", remembered=True)
    with GithubReport("kgen verify") as report:
        report.verified(Result(label="a", verdict=verdict), "")
    assert "| `a` | passed, remembered |\n" in summary()


def test_a_report_without_a_summary_file(monkeypatch, capsys):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    with pytest.raises(FileError), GithubReport("kgen verify"):
        raise FileError("no such file")
    assert capsys.readouterr().out == "::error title=kgen::no such file\n"


@pytest.mark.parametrize("command", [("render",), ("vendor", "--update", "dest")])
def test_the_format_goes_with_check(command):
    outcome = kgen(*command, "--format", "github")
    assert outcome.exit_code == 2
    assert "--format github goes with --check." in outcome.stderr
