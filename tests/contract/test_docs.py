"""The reference in docs/ is what the code says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kgen import docs
from kgen.cli import COMMANDS, EXIT_CODES
from kgen.errors import ExitCode
from kgen.rules import all_rules
from kgen.spec_reference import tables

ROOT = Path(__file__).parents[2]


def test_the_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "-m", "kgen.docs", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_drift_is_noticed(tmp_path):
    for name, text in docs.build().items():
        (tmp_path / name).write_text(text)
    assert list(docs.differing(tmp_path)) == []
    (tmp_path / "spec.md").write_text("old")
    (tmp_path / "cli.md").unlink()
    assert list(docs.differing(tmp_path)) == ["cli.md", "spec.md"]


def test_check_names_what_differs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(docs, "DOCS_DIR", tmp_path / "docs")
    assert docs.main(["--check"]) == 1
    assert capsys.readouterr().err == "".join(
        f"docs/{name} differs; run `python -m kgen.docs`\n"
        for name in ("cli.md", "rules.md", "simulation.md", "spec.md")
    )
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    assert docs.main(["--chekc"]) == 2


def test_every_rule_key_and_command_has_its_place():
    pages = docs.build()
    for code, rule in all_rules().items():
        assert f"\n### {code}: {rule.title}\n" in pages["rules.md"]
    for table in tables():
        assert f"\n## [{table.name}]\n" in pages["spec.md"]
        for key in table.keys:
            assert f"\n| `{key.name}` |" in pages["spec.md"]
    for name in COMMANDS:
        assert f"\n## kgen {name}\n" in pages["cli.md"]


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_is_told(code):
    assert f"\n{int(code)}    " in docs.cli_page()
    assert f"\n  {int(code)} " in EXIT_CODES


def test_tables_of_the_pages_are_whole():
    for text in docs.build().values():
        rows = [line for line in text.splitlines() if line.startswith("|")]
        for row in rows:
            assert row.replace("\\|", "").count("|") in (3, 5)


def test_lines_of_a_module_that_the_readme_quotes_are_there():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    module = (ROOT / "generated" / "fp16_128x128.py").read_text(encoding="utf-8")
    lines = module.splitlines()
    quoted = re.findall(r"fp16_128x128\.py:(\d+): (.+?)  <- ", readme)
    assert len(quoted) == 2
    for number, text in quoted:
        assert lines[int(number) - 1].strip() == text
    (spec,) = re.findall(r"plgpu\.BlockSpec\nof .*\(fp16_128x128\.py:(\d+)\)", readme)
    assert "plgpu.BlockSpec(" in lines[int(spec) - 1]
    (excerpt,) = re.findall(r"```python\n(    def multiply.*?)```", readme, re.DOTALL)
    assert excerpt in module
