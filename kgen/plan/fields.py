"""A plan of any operation as figures under dotted names."""

import dataclasses
from collections.abc import Iterator

from kgen.plan.base import Plan

# Where a plan is from, and not what it is.
ORIGIN = ("spec_path", "spec_digest", "test_digest")
# At which sizes it is verified follows from the rest; the kernels that a dispatch module
# needs have plans of their own.
FOLLOWS = ("cases", "needed")


def figures(plan: Plan) -> dict[str, object]:
    """Returns every figure of a plan, in the order of its fields.

    Parts of a part have dotted names, such as `operand_layout.swizzle`; elements that
    have a name stand under it, such as `smem.buffers.a_smem.bytes`.
    """
    found = {"op": plan.op, **dict(_parts("", plan))}
    left_out = (*ORIGIN, *FOLLOWS)
    return {k: v for k, v in found.items() if k.partition(".")[0] not in left_out}


def _parts(prefix: str, part: object) -> Iterator[tuple[str, object]]:
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            name = f"{prefix}.{field.name}" if prefix else field.name
            yield from _parts(name, getattr(part, field.name))
    elif isinstance(part, tuple) and any(map(dataclasses.is_dataclass, part)):
        for number, element in enumerate(part):
            name = getattr(element, "name", str(number))
            for key, value in _parts(f"{prefix}.{name}", element):
                if key != f"{prefix}.{name}.name":
                    yield key, value
    else:
        yield prefix, part
