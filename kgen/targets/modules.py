"""What a module stands for as it is: nothing but its text tells what it should do."""

import json
from pathlib import Path

from kgen import beside, module_cases, module_table, module_text
from kgen.epilogue.steps import to_json
from kgen.errors import UsageError
from kgen.module_cases import EVERY_SIZE
from kgen.targets import source
from kgen.targets.asked import Asked, Target, refuse_reference
from kgen.targets.sizes import differentiated, sized
from kgen.verify.request import GLU, MATMUL, Request


def of_module(path: Path, asked: Asked) -> Target:
    """Asks about a module as it is: nothing but its text tells what it should do."""
    refuse_reference(asked)
    text = source.read(path)
    try:
        described = module_text.describe(text)
    except module_text.NotDescribedError as error:
        names = ", ".join(module_text.offered(text)) or "it has none"
        raise UsageError(
            f"{path} does not say what it computes: {error}\n"
            f"  allowed: {path}:FUNCTION with --shape\n"
            f"  hint: functions of the file: {names}"
        ) from None
    # Each of the modules beside it has multiples of its own.
    found = beside.find(text, path.parent)
    table = module_table.read(text, found.texts)
    multiples = EVERY_SIZE if found.texts else described.multiples
    asked_cases = tuple(
        sized(shape, multiples, str(path), batched=described.batched)
        for shape in asked.shapes
    )
    for text_of_case, case in zip(asked.shapes, asked_cases, strict=True):
        if table and not table.nearest((case.m, case.n, case.k)):
            raise UsageError(
                f"--shape {text_of_case!r}: no kernel of {path} can do it\n"
                f"  allowed: multiples of {table.allowed}"
            )
    request = Request(
        name=source.module_name(path),
        source=text,
        function=described.function,
        op=GLU if described.activation else MATMUL,
        arch=described.arch,
        layout=described.layout,
        out_order=described.out_order,
        operand_dtype=described.operand_dtype,
        b_dtype=described.b_dtype,
        out_dtype=described.out_dtype,
        cases=tuple(
            differentiated(case, described.to_differentiate) for case in asked_cases
        )
        or module_cases.own(described),
        allow=_allowed(text),
        epilogue=to_json(described.epilogue),
        promoted=described.promoted,
        scale_block=described.scale_block,
        parameters=(
            json.dumps({"activation": described.activation})
            if described.activation
            else "{}"
        ),
        beside=json.dumps(found.texts),
        package=found.package,
        **module_cases.limits(described, table, alone=not found.texts),
    )
    return Target(label=str(path), request=request, path=str(path))


def _allowed(text: str) -> tuple[str, ...]:
    """Returns the rules that a module's header says it may break."""
    from kgen.emit import provenance

    found = provenance.read(text)
    return () if found is None else found.allowed
