"""`kgen list`: the catalogue as a table."""

import json

import pytest
from commands import kgen

from kgen import resources
from kgen.cli.list import FIELDS

GOOD = '[kernel]\nname = "{name}"\nop = "matmul"\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(directory, name, text=GOOD):
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.toml").write_text(text.replace("{name}", name))


def test_table(here):
    write(here / "specs", "one")
    text = GOOD + '[dtypes]\na = "float16"\nb = "float16"\n[tile]\nn = 64\n'
    write(here / "specs", "another", text)
    outcome = kgen("list")
    assert outcome.exit_code == 0
    assert outcome.stdout == (
        "  name     op      dtypes               tile        stages  schedule   file\n"
        "  another  matmul  fp16 x fp16 -> fp16  128x64x64        4  pipelined  "
        "specs/another.toml\n"
        "  one      matmul  bf16 x bf16 -> bf16  128x128x64       4  pipelined  "
        "specs/one.toml\n"
    )


def test_json(here):
    write(here / "specs", "one")
    outcome = kgen("list", "specs/one.toml", "--format", "json")
    (kernel,) = json.loads(outcome.stdout)["kernels"]
    assert kernel == {
        "name": "one",
        "op": "matmul",
        "a_dtype": "bfloat16",
        "b_dtype": "bfloat16",
        "out_dtype": "bfloat16",
        "layout": "nn",
        "tile_m": 128,
        "tile_n": 128,
        "tile_k": 64,
        "max_concurrent_steps": 4,
        "schedule": "pipelined",
        "arch": "sm_90a",
        "file": "specs/one.toml",
    }
    assert list(kernel) == list(FIELDS)


def test_a_family_has_a_row_for_each_variant(here):
    write(
        here,
        "f",
        GOOD.replace("{name}", "f{tile.n}") + "[matrix]\ntile.n = [64, 128]\n",
    )
    outcome = kgen("list", "f.toml", "--format", "json")
    assert [k["name"] for k in json.loads(outcome.stdout)["kernels"]] == ["f64", "f128"]


def test_invalid_specs_are_told_after_the_others(here):
    write(here / "specs", "a_broken", "[kernel\n")
    write(here / "specs", "good")
    write(here / "specs", "illegal", GOOD + "[tile]\nm = 100\n")
    outcome = kgen("list")
    assert outcome.exit_code == 3
    assert "specs/good.toml" in outcome.stdout
    assert "illegal" not in outcome.stdout
    (
        first,
        *_,
    ) = outcome.stderr.splitlines()
    assert first.startswith("specs/a_broken.toml:1: KG001 ")
    assert "specs/illegal.toml:5: KG101 tile.m = 100" in outcome.stderr


def test_without_specs_here_the_shipped_catalogue(here, monkeypatch):
    write(here / "shipped", "one")
    monkeypatch.setattr(resources, "specs_dir", lambda: here / "shipped")
    outcome = kgen("list")
    assert outcome.exit_code == 0
    assert outcome.stdout.endswith("  No specs here: this is what kgen brings along.\n")
    assert f"{here}/shipped/one.toml\n" in outcome.stdout


def test_the_project_file_says_where_specs_are(here):
    write(here / "mine", "one")
    (here / "kgen.toml").write_text('specs = ["mine"]\n')
    outcome = kgen("list")
    assert outcome.exit_code == 0
    assert outcome.stdout.endswith("mine/one.toml\n")


def test_a_missing_place(here):
    outcome = kgen("list", "nowhere")
    assert outcome.exit_code == 5
    assert "nowhere" in outcome.stderr


def test_an_empty_directory(here):
    (here / "specs").mkdir()
    assert kgen("list").exit_code == 2
