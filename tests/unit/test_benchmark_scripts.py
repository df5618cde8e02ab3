"""What the scripts that need a GPU do beside running kernels there."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from kgen.code import code_digest
from kgen.targets import find_targets
from kgen.targets.asked import Asked

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "generated" / "fp16_128x128.py"


@pytest.fixture
def script(monkeypatch):
    """Imports a script of benchmarks/, which import each other by name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


def counted(name, ctas, threads=384):
    return {"kernel": name, "launch__grid_size": ctas, "launch__block_size": threads}


def test_counted_kernels_are_those_before_a_mark(script):
    mark = counted("add", 1, 128)
    kernels = [counted("ours", 132), mark, counted("a", 90), counted("b", 7), mark]
    found = script("counters").parts(kernels, ["kernel", "xla"])
    assert [each["kernel"] for each in found["kernel"]] == ["ours"]
    assert [each["kernel"] for each in found["xla"]] == ["a", "b"]


def test_counters_are_numbers_and_what_ncu_does_not_know_is_left_out(script):
    counters = script("counters")
    row = dict.fromkeys(counters.COUNTERS, "n/a") | {
        "Kernel Name": "ours",
        "gpu__time_duration.sum": "12,345.5",
    }
    assert counters.numbers(row) == {
        "kernel": "ours",
        "gpu__time_duration.sum": 12345.5,
    }


def test_proofs_of_another_text_or_machine_are_not_kept(script, tmp_path):
    (target,) = find_targets([str(SMALL)], Asked(), lambda futures, _: futures)
    machine, path = {"device": "one"}, tmp_path / "proof.json"
    kept = script("gpu_proof").kept
    assert kept(path, machine, [target]) == {}
    digest = code_digest(target.request.source)
    record = {"name": target.request.name, "source_digest": digest}
    path.write_text(json.dumps({"machine": machine, "modules": [record]}))
    assert kept(path, machine, [target]) == {"fp16_128x128": record}
    assert kept(path, {"device": "another"}, [target]) == {}
    record["source_digest"] = "of an earlier text"
    path.write_text(json.dumps({"machine": machine, "modules": [record]}))
    assert kept(path, machine, [target]) == {}


def test_variants_are_planned_or_told_why_not(script):
    variants = script("variants")
    group = {
        "spec": "specs/h200/bf16_128x256_persistent.toml",
        "shape": [4096, 4000, 4096],
        "variants": {
            "two slots": {"pipeline.max_concurrent_steps": 2},
            "tile of 100 rows": {"tile.m": 100},
            "any size": {"shapes.edge": "any"},
        },
    }
    plans, refused = variants.plans_of(group)
    assert list(plans) == ["any size"]
    assert "n = 4000 is not a positive multiple of 256" in refused["two slots"]
    assert "KG101" in refused["tile of 100 rows"]
    request = variants.request_of(plans["any size"], "text", group["shape"])
    (case,) = request.cases
    assert (case.m, case.n, case.k) == (4096, 4000, 4096)


def test_every_group_of_the_list_of_variants_is_planned(script):
    variants = script("variants")
    for group in json.loads((ROOT / "benchmarks/h200_variants.json").read_text()):
        plans, refused = variants.plans_of(group)
        assert refused == {}
        assert len(plans) == 1 + len(group["variants"])


def test_the_page_names_the_fastest_variants_and_what_was_refused(script):
    why = script("why")
    times = {
        name: {"us": us, "xla_over_it": 10 / us}
        for us, name in enumerate(("a", "b", "c", "d", "e", "f", "XLA"), start=1)
    }
    group = {"times": times, "others": {"g": "KG101 tile.m = 100\n  allowed: 64"}}
    told = [row[0] for row in why.variant_rows(group)]
    assert told == ["a", "b", "c", "d", "e", "XLA", "g"]
    assert [*why.variant_rows(group)][-1] == ("g", "KG101 tile.m = 100", "")


@pytest.mark.parametrize("name", ["counters", "variants", "gpu_proof", "jax_example"])
def test_without_a_gpu_a_script_says_so(name, script, monkeypatch, tmp_path):
    module = script(name)
    pairs = tmp_path / "list.json"
    pairs.write_text(json.dumps([[str(SMALL), [128, 128, 64]]]))
    arguments = [] if name == "gpu_proof" else [str(pairs)]
    out = ["--out", str(tmp_path / "out.json")]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments, *out])
    with pytest.raises(SystemExit) as ended:
        sys.exit(module.main())
    assert ended.value.code not in (0, None)
    assert not (tmp_path / "out.json").exists()
