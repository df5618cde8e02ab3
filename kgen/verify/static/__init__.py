"""Level `static`: the legality rules, checked on the traced kernel.

Every case is traced on the CPU, without lowering. What the kernels in it do is written
down as facts, and the rules are functions of the facts. It works for any
`plgpu.kernel`, whoever wrote it, and speaks before Mosaic GPU's own assertions do.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kgen.arch import ARCHS, Arch
from kgen.rules import all_rules
from kgen.verify import upstream
from kgen.verify.explain import LevelError, NotModelledError, explain, explain_refusal
from kgen.verify.request import Case, Request, is_empty
from kgen.verify.static import errors, pieces, walk
from kgen.verify.static.facts import Kernel
from kgen.verify.static.rules import TRACED, check


def run(
    function: Callable[..., Any],
    request: Request,
    module: Path,
    progress: Callable[[str], None],
) -> Sequence[str]:
    """Checks the rules on the kernels of `function`, at every case.

    Args:
      function: The module's public function.
      request: Cases, and the rules that may be broken.
      module: The module's file.
      progress: Told what is being tried.

    Returns:
      Notes: rules that are allowed to be broken and are not.

    Raises:
      LevelError: rules are broken; all of them are told, each once.
      NotModelledError: this JAX is not known well enough, or there is no such GPU.
    """
    try:
        known = pieces.load()
        return _run(known, function, request, module, progress)
    except upstream.UnavailableError as error:
        version = upstream.jax_version()
        raise NotModelledError(f"not checked on jax {version}: {error}") from error


def facts(
    function: Callable[..., Any], request: Request, case: Case, module: Path
) -> list[Kernel]:
    """Returns the facts of every kernel that `function` launches at `case`.

    Raises:
      UnavailableError: a piece of JAX is missing.
    """
    return _facts(pieces.load(), function, request, case, module)


def _run(
    known: pieces.Pieces,
    function: Callable[..., Any],
    request: Request,
    module: Path,
    progress: Callable[[str], None],
) -> list[str]:
    # They bring numpy, `kgen rule` does not.
    from kgen.verify import extremes, picks, refusals

    cases_of: dict[str, list[str]] = {}
    broken = set()
    cases = (*request.cases, *extremes.around_atoms(request))
    for case in cases:
        progress(str(case))
        for code, text in _check(known, function, request, case, module):
            broken.add(code)
            if code not in request.allow:
                cases_of.setdefault(text, []).append(str(case))
    if cases_of:
        raise LevelError(_describe(cases_of, len(cases)))
    for case in extremes.longest(function, request):
        progress(str(case))
        _check_longest(known, function, request, case, module)
    progress("what must be refused")
    notes = refusals.check(function, request, module)
    picks.check(function, request, module, progress)
    return [
        *notes,
        *_not_broken(request, broken),
    ]


def _not_broken(request: Request, broken: set[str]) -> list[str]:
    """Returns notes of the rules that may be broken in vain."""
    return [
        f"{code} is allowed to be broken, but no kernel breaks it"
        for code in request.allow
        if code in TRACED and code not in broken
    ]


def _check_longest(
    known: pieces.Pieces,
    function: Callable[..., Any],
    request: Request,
    case: Case,
    module: Path,
) -> None:
    """Checks that a function refuses a size, or that the rules allow its kernel."""
    from kgen.verify import refusals

    try:
        found = _check(known, function, request, case, module)
    except LevelError as error:
        if error.__cause__ and refusals.is_refusal(error.__cause__, module):
            return
        raise
    told = [text for code, text in found if code not in request.allow]
    if told:
        raise LevelError("\n".join([*told, f"  at: {case}, which is not refused"]))


def _check(
    known: pieces.Pieces,
    function: Callable[..., Any],
    request: Request,
    case: Case,
    module: Path,
) -> list[tuple[str, str]]:
    """Returns code and text of every broken rule at one case, each once."""
    try:
        kernels = _facts(known, function, request, case, module)
    except (NotModelledError, upstream.UnavailableError):
        raise
    except Exception as error:
        # Whatever is allowed, JAX does not go on.
        code = errors.code_of(error)
        if code is None:
            text = explain_refusal(error, module, request.allow)
            raise LevelError(f"at {case}: {text}") from error
        raise LevelError(_told_by_jax(code, error, module)) from error
    if not kernels and not is_empty(case):
        raise NotModelledError(f"not checked: no Mosaic GPU kernel is found at {case}")
    found = [
        (code, finding.text(code))
        for kernel in kernels
        for code, finding in check(kernel)
    ]
    return list(dict.fromkeys(found))


def _facts(
    known: pieces.Pieces,
    function: Callable[..., Any],
    request: Request,
    case: Case,
    module: Path,
) -> list[Kernel]:
    import jax

    # They bring numpy, `kgen rule` does not.
    from kgen.verify.lower import called, operands

    with pieces.lenient_layouts(known):
        traced = jax.jit(called(function, case)).trace(*operands(request, case))
        kernels = walk.kernels(known, traced.jaxpr.jaxpr, module, _arch(request))
    if any(ref.layout_fault for kernel in kernels for ref in kernel.allocations):
        # What is traced from now on must meet JAX's own checks.
        jax.clear_caches()  # type: ignore[no-untyped-call]
    return kernels


def _arch(request: Request) -> Arch:
    if request.arch not in ARCHS:
        raise NotModelledError(
            f"not checked: {request.arch} is not one of {', '.join(ARCHS)}"
        )
    return ARCHS[request.arch]


def _told_by_jax(code: str, error: BaseException, module: Path) -> str:
    message, _, place = explain(error, module).rpartition("; at ")
    title = all_rules()[code].title
    return "\n".join(
        [
            f"{code} {title}: {message or place}",
            *([f"  {place}"] if message else []),
            f"  hint: see `kgen rule {code}`",
        ]
    )


def _describe(cases_of: dict[str, list[str]], count: int) -> str:
    """Returns the findings; those that not every case has say at which they are."""
    texts = []
    for text, cases in cases_of.items():
        if len(cases) < count:
            more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
            texts.append(f"{text}\n  at: {cases[0]}{more}")
        else:
            texts.append(text)
    return "\n".join(texts)
