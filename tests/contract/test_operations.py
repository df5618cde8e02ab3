"""Every operation is complete; a missing part is named."""

import pytest

from kgen import operations
from kgen.resources import specs_dir
from kgen.spec.load import find_specs, load_all
from kgen.verify.reference import OPERATIONS

OPS = tuple(operations.OWN)
SHIPPED = {spec.spec.kernel.op for spec in load_all(find_specs([specs_dir()]))}
# What the verifier knows by another name: a dispatch module is a matmul.
VERIFIED_AS = {"dispatch": "matmul"}


def parts_of(op):
    known = op in operations.OWN
    operation = operations.get(op) if known else None
    templates = operation.templates if known else specs_dir()
    return {
        "operation": known,
        "name": known and operation.name == op,
        "template": (templates / f"{op}.py.jinja").is_file(),
        "template of the test": (templates / f"test_{op}.py.jinja").is_file(),
        "reference": VERIFIED_AS.get(op, op) in OPERATIONS
        or (known and operation.reference is not None),
        "example spec": op in SHIPPED,
    }


@pytest.mark.parametrize("op", OPS)
def test_an_operation_has_all_its_parts(op):
    assert [part for part, there in parts_of(op).items() if not there] == []


def test_a_missing_part_is_named():
    missing = [part for part, there in parts_of("softmax").items() if not there]
    assert "operation" in missing
    assert "example spec" in missing


def test_nothing_is_registered_without_an_operation():
    assert set(OPERATIONS) - {"function"} <= set(OPS)
