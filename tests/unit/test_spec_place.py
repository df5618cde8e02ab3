"""Where a spec lies, as its project says it: the same in every checkout."""

from pathlib import Path

import pytest
from made import load


@pytest.mark.parametrize(
    ("directory", "root", "place"),
    [
        ("specs", None, "specs/k1.toml"),
        ("specs/h200", None, "specs/h200/k1.toml"),
        ("project/specs/a", "project", "specs/a/k1.toml"),
        ("project/kernels", "project", "k1.toml"),
        # A directory above the project does not belong to it.
        ("specs/project/kernels", "specs/project", "k1.toml"),
    ],
)
def test_a_place_begins_at_the_specs_of_the_project(directory, root, place, tmp_path):
    (tmp_path / directory).mkdir(parents=True)
    if root:
        (tmp_path / root / "pyproject.toml").touch()
    assert load(tmp_path / directory, "", "k1").place == place


def test_it_does_not_depend_on_the_current_directory(tmp_path, monkeypatch):
    specs = tmp_path / "specs"
    specs.mkdir()
    monkeypatch.chdir(specs)
    assert load(Path(), "", "k1").place == "specs/k1.toml"
