"""Where the shipped templates and specs are looked for."""

import re

import pytest

from kgen import resources
from kgen.errors import FileError


def test_a_checkout_has_them_at_its_top(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "kgen")
    (tmp_path / "specs").mkdir()
    (tmp_path / "templates").mkdir()
    assert resources.specs_dir() == tmp_path / "specs"
    assert resources.templates_dir() == tmp_path / "templates"


def test_an_installed_package_uses_its_own_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "kgen")
    (tmp_path / "specs").mkdir()
    (tmp_path / "kgen/_data/specs").mkdir(parents=True)
    assert resources.specs_dir() == tmp_path / "kgen/_data/specs"


def test_a_package_without_its_data_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "kgen")
    message = (
        f"kgen's templates are missing beside {tmp_path / 'kgen'}; install kgen again"
    )
    with pytest.raises(FileError, match=re.escape(message)):
        resources.templates_dir()
