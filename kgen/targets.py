"""What `kgen verify` is to verify: specs, rendered modules, functions of any file.

specs/fp16_128x128.toml       what the spec yields, rendered anew; nothing is written
specs                         every spec of a directory
generated/fp16_128x128.py     a module as it is, edited or not
generated                     every module of a directory without specs
kernels/mine.py:attention     any function that runs Mosaic GPU kernels
"""

import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgen import beside, module_cases, module_table, module_text
from kgen.epilogue.steps import to_json
from kgen.errors import FileError, KgenError, UsageError
from kgen.module_cases import EVERY_SIZE
from kgen.shapes import parse_batch, parse_operands, parse_sizes
from kgen.verify.request import (
    DTYPES,
    FUNCTION,
    GLU,
    MATMUL,
    OperandCase,
    Request,
    RequestCase,
)
from kgen.workers import Track

if TYPE_CHECKING:
    from kgen.emit.render import Module
    from kgen.plan.base import Plan

ARCH = "sm_90a"
"""What a file is lowered for if it does not say."""

_FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<name>[^:/]*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """How the command line asks.

    Attributes:
      shapes: Texts of `--shape`; without any, the spec's or module's own sizes.
      dtype: Elements of A and B where a function is asked as a matmul.
      reference: Name of the function that computes what is right, if it is told.
      templates: Directories whose templates come before the shipped ones.
      jobs: Specs that are rendered at once.
      out: Where the modules of specs may lie, so that a place in one can be told.
    """

    shapes: tuple[str, ...] = ()
    dtype: str = "float16"
    reference: str | None = None
    templates: tuple[Path, ...] = ()
    jobs: int = 1
    out: Path | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """One module or function.

    Attributes:
      label: What it is called, as the user would name it.
      request: What the verifier is asked; None if that cannot be made.
      error: Why it cannot.
      path: Its file: that of a function, a module, or a spec. For a spec it is the
        module that it yields if that lies there, byte for byte.
    """

    label: str
    request: Request | None = None
    error: KgenError | None = None
    path: str | None = None


def find_targets(names: Sequence[str], asked: Asked, track: Track) -> Iterator[Target]:
    """Yields what each of `names` stands for, in their order.

    Raises:
      SpecError: specs are invalid; every problem of every spec is told.
      FileError: a file cannot be read.
      UsageError: a name stands for nothing, or a shape cannot be.
    """
    specs: list[Path] = []
    for name in names:
        if match := _FUNCTION.fullmatch(name):
            yield from _of_specs(specs, asked, track)
            yield _of_function(Path(match["path"]), match["name"], asked)
        elif modules := _modules(Path(name)):
            yield from _of_specs(specs, asked, track)
            for path in modules:
                yield _of_module(path, asked)
        else:
            specs.append(Path(name))
            continue
        specs = []
    yield from _of_specs(specs, asked, track)


def _modules(path: Path) -> tuple[Path, ...]:
    """Returns the modules that a path stands for; none if it stands for specs."""
    if path.suffix == ".py":
        return (path,)
    if not path.is_dir() or any(path.glob("*.toml")):
        return ()
    return tuple(p for p in sorted(path.glob("*.py")) if p.name != "__init__.py")


def _of_specs(specs: Sequence[Path], asked: Asked, track: Track) -> Iterator[Target]:
    """Yields what specs render to."""
    if not specs:
        return
    from kgen import pipeline
    from kgen.emit.render import Module
    from kgen.spec.load import find_specs
    from kgen.spec.source import place_of

    _refuse_reference(asked)
    plans = pipeline.plan_all(specs)
    files = {place_of(path): str(path) for path in find_specs(specs)}
    for plan, module in pipeline.render_all(plans, asked.jobs, track, asked.templates):
        label = f"{plan.spec_path} ({plan.name})"
        path = files.get(plan.spec_path)
        if not isinstance(module, Module):
            yield Target(label=label, error=module, path=path)
            continue
        path = _rendered(module, asked.out) or path
        request = pipeline.request_of(plan, module, templates=asked.templates)
        if asked.shapes:
            sized = tuple(_case_of_plan(plan, text) for text in asked.shapes)
            request = dataclasses.replace(request, cases=sized)
        yield Target(label=label, request=request, path=path)


def _rendered(module: "Module", out: Path | None) -> str | None:
    """Returns where a module lies as it is rendered, if it does."""
    if out is None:
        return None
    path = out / f"{module.name}.py"
    try:
        return str(path) if path.read_bytes() == module.source.encode() else None
    except OSError:
        return None


def _case_of_plan(plan: "Plan", text: str) -> RequestCase | OperandCase:
    from kgen.plan.dispatch import DispatchPlan
    from kgen.plan.model import MatmulPlan

    if isinstance(plan, DispatchPlan):
        m, n, k = _sizes(text, EVERY_SIZE, plan.name)
        if plan.choose((m, n, k)) is None:
            raise UsageError(
                f"--shape {text!r}: no kernel of {plan.name} can do it\n"
                f"  allowed: multiples of {plan.allowed}"
            )
        return RequestCase(m=m, n=n, k=k)
    if not isinstance(plan, MatmulPlan):
        return OperandCase(operands=parse_operands(text))
    found = _sized(text, plan.units, plan.name, batched=plan.batched)
    # With fewer steps than slots the ring is shorter than planned.
    full = plan.steps(found.k) >= plan.max_concurrent_steps
    smem = plan.smem.total if full else None
    multiples = plan.units_to_differentiate if plan.autodiff else None
    found = _differentiated(found, multiples)
    return dataclasses.replace(found, smem_bytes=smem)


def _differentiated(
    case: RequestCase, multiples: tuple[int, int, int] | None
) -> RequestCase:
    """Returns a case with gradients, if there are any of its size."""
    size = case.m, case.n, case.k
    has_gradients = multiples is not None and not any(
        length % unit for length, unit in zip(size, multiples, strict=True)
    )
    return dataclasses.replace(case, differentiate=has_gradients)


def _of_module(path: Path, asked: Asked) -> Target:
    """Asks about a module as it is: nothing but its text tells what it should do."""
    _refuse_reference(asked)
    text = _read(path)
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
        _sized(shape, multiples, str(path), batched=described.batched)
        for shape in asked.shapes
    )
    for text_of_case, case in zip(asked.shapes, asked_cases, strict=True):
        if table and not table.nearest((case.m, case.n, case.k)):
            raise UsageError(
                f"--shape {text_of_case!r}: no kernel of {path} can do it\n"
                f"  allowed: multiples of {table.allowed}"
            )
    request = Request(
        name=_module_name(path),
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
            _differentiated(case, described.to_differentiate) for case in asked_cases
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


def _of_function(path: Path, name: str, asked: Asked) -> Target:
    """Asks about any function of a file, which is imported where it lies."""
    text = _read(path)
    names = module_text.functions(text)
    for needed in filter(None, (name or "''", asked.reference)):
        if needed not in names:
            offered = ", ".join(module_text.offered(text))
            raise UsageError(
                f"{path} has no function {needed}\n"
                f"  allowed: {offered or 'none: it defines no functions'}"
            )
    if not asked.shapes:
        raise UsageError(
            f"--shape is missing for {path}:{name}\n"
            '  hint: --shape "float16[256,512] float16[512,128]" names its operands,'
            " and --shape 256,128,512 a matmul's m, n and k"
        )
    sizes = [parse_sizes(shape) for shape in asked.shapes]
    ask = functools.partial(
        Request,
        name=_module_name(path),
        source=text,
        function=name,
        arch=ARCH,
        path=str(path.absolute()),
    )
    if None not in sizes and asked.reference is None:
        if asked.dtype not in DTYPES:
            raise UsageError(f"--dtype must be one of {', '.join(DTYPES)}")
        matmul = tuple(RequestCase(m=s[0], n=s[1], k=s[2]) for s in sizes if s)
        request = ask(op=MATMUL, operand_dtype=asked.dtype, cases=matmul)
    else:
        _refuse_sizes(asked, sizes)
        reference = asked.reference or ("reference" if "reference" in names else "")
        operands = tuple(
            OperandCase(operands=parse_operands(shape)) for shape in asked.shapes
        )
        request = ask(op=FUNCTION, reference=reference, cases=operands)
    return Target(label=f"{path}:{name}", request=request, path=str(path))


def _refuse_sizes(asked: Asked, sizes: Sequence[tuple[int, int, int] | None]) -> None:
    """Refuses three sizes beside operands or a reference."""
    for text, size in zip(asked.shapes, sizes, strict=True):
        if size is not None:
            raise UsageError(
                f"--shape {text!r}: three sizes stand for a matmul, and go neither with"
                " operands nor with --reference"
            )


def _sized(
    text: str, multiples: tuple[int, int, int], what: str, *, batched: bool
) -> RequestCase:
    """Returns the case of a `--shape`, which may have a batch in front of it."""
    found = parse_batch(text)
    batch = found[0] if found else ()
    if batch and not batched:
        raise UsageError(
            f"--shape {text!r}: {what} takes no batch\n"
            "  allowed: M,N,K such as 256,512,1024"
        )
    if batch and not all(batch):
        raise UsageError(f"--shape {text!r}: a batch has one matrix or more")
    m, n, k = _sizes(text[text.rfind("x") + 1 :], multiples, what)
    return RequestCase(m=m, n=n, k=k, a_batch=batch, b_batch=batch)


def _sizes(
    text: str, multiples: tuple[int, int, int], what: str
) -> tuple[int, int, int]:
    """Returns the sizes of a `--shape`, if a module can do them."""
    sizes = parse_sizes(text)
    if sizes is None:
        raise UsageError(
            f"--shape {text!r} is not three sizes, as a matmul has them\n"
            "  allowed: M,N,K such as 256,512,1024"
        )
    if multiples == EVERY_SIZE:
        return sizes
    for axis, size, multiple in zip("mnk", sizes, multiples, strict=True):
        if size == 0 or size % multiple:
            raise UsageError(
                f"--shape {text!r}: {axis} = {size} is not a positive multiple of"
                f" {multiple}, as {what} needs it"
            )
    return sizes


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
        compile(text, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is not UTF-8 text") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{path}:{line}" if line else f"{path}"
        raise FileError(f"{place} is not Python: {error}") from None
    return text


def _module_name(path: Path) -> str:
    name = re.sub(r"\W", "_", path.stem)
    return name if name.isidentifier() else f"_{name}"


def _refuse_reference(asked: Asked) -> None:
    if asked.reference is not None:
        raise UsageError("--reference goes with PATH.py:FUNCTION alone")
