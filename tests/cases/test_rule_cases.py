"""Specs that are well formed, and the legality rules that they break.

A case is a spec, a line `# output`, and the messages whole. `[kernel]` may be left out.
"""

from pathlib import Path

import pytest

from kgen.errors import SpecError
from kgen.plan import make_plan
from kgen.spec.load import load_file

CASES = sorted((Path(__file__).parent / "rules").glob("*.case"))
KERNEL = '[kernel]\nname = "kernel_of_a_case"\nop = "matmul"\n'


def told(path: Path) -> str:
    messages = []
    for spec in load_file(path):
        try:
            make_plan(spec)
        except SpecError as error:
            messages.append(str(error))
    return "\n".join(messages)


def test_there_are_cases():
    assert len(CASES) >= 35


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_rule(case, tmp_path, monkeypatch):
    text, separator, expected = case.read_text("utf-8").partition("# output\n")
    assert separator, "a case has a line '# output'"
    monkeypatch.chdir(tmp_path)
    path = Path("spec.toml")
    path.write_text(text if "[kernel]" in text else text + KERNEL, "utf-8")
    assert told(path) == expected.rstrip("\n")
