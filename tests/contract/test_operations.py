"""Every operation is complete; a missing part is named."""

import typing

import pytest

from kgen.emit.render import VIEWS
from kgen.plan import PLANNERS
from kgen.resources import specs_dir, templates_dir
from kgen.spec.load import find_specs, load_all
from kgen.spec.model import Kernel
from kgen.verify.reference import OPERATIONS

OPS = typing.get_args(Kernel.model_fields["op"].annotation)
SHIPPED = {spec.spec.kernel.op for spec in load_all(find_specs([specs_dir()]))}


def parts_of(op):
    templates = templates_dir()
    return {
        "planner": op in PLANNERS,
        "view": op in VIEWS,
        "template": (templates / f"{op}.py.jinja").is_file(),
        "template of the test": (templates / f"test_{op}.py.jinja").is_file(),
        "reference": op in OPERATIONS,
        "example spec": op in SHIPPED,
    }


@pytest.mark.parametrize("op", OPS)
def test_an_operation_has_all_its_parts(op):
    assert [part for part, there in parts_of(op).items() if not there] == []


def test_a_missing_part_is_named():
    missing = [part for part, there in parts_of("softmax").items() if not there]
    assert "planner" in missing
    assert "example spec" in missing


def test_nothing_is_registered_without_an_operation():
    assert set(PLANNERS) == set(VIEWS) == set(OPERATIONS) == set(OPS)
