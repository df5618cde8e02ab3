"""Specs and what kgen says about them.

A case is a spec, a line `# output`, and the messages whole; for a spec that is accepted,
the name of each variant and what it says beyond the defaults.
"""

import json
from pathlib import Path

import pytest

from kgen.errors import SpecError
from kgen.spec.load import load_file

CASES = sorted((Path(__file__).parent / "spec").glob("*.case"))


def told(path: Path) -> str:
    try:
        specs = load_file(path)
    except SpecError as error:
        return str(error)
    lines = []
    for sourced in specs:
        said = sourced.spec.model_dump(mode="json", exclude_defaults=True)
        del said["kernel"]["name"], said["kernel"]["op"]
        lines.append(f"{sourced.name}: {json.dumps(said)}")
    return "\n".join(lines)


def test_there_are_cases():
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_spec(case, tmp_path, monkeypatch):
    text, separator, expected = case.read_text("utf-8").partition("# output\n")
    assert separator, "a case has a line '# output'"
    monkeypatch.chdir(tmp_path)
    path = Path("spec.toml")
    path.write_text(text, "utf-8")
    assert told(path) == expected.rstrip("\n")
