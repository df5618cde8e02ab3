"""Specs for tests, from the text of their tables."""

from pathlib import Path

from kgen.plan import make_plan
from kgen.plan.model import Plan
from kgen.spec.load import load_file
from kgen.spec.source import SourcedSpec

KERNEL = '[kernel]\nname = "{name}"\nop = "matmul"\n'


def load(directory: Path, text: str, name: str = "made_for_a_test_run") -> SourcedSpec:
    """Returns the spec of some TOML; `[kernel]` may lack its name and op, or be left out."""
    kernel = KERNEL.format(name=name)
    path = directory / f"{name}.toml"
    with_kernel = (
        text.replace("[kernel]\n", kernel, 1) if "[kernel]" in text else text + kernel
    )
    path.write_text(with_kernel, "utf-8")
    (spec,) = load_file(path)
    return spec


def plan(directory: Path, text: str, name: str = "made_for_a_test_run") -> Plan:
    return make_plan(load(directory, text, name))
