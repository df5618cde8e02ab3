"""What a planted fault is."""

import ast
import dataclasses
import hashlib
import re

from kgen.verify.request import Request

LATER = (
    "a_batch",
    "b_batch",
    "differentiate",
    "grad_a_smem_bytes",
    "grad_b_smem_bytes",
)
"""Fields of cases that came later: empty ones do not change a digest."""

Edit = tuple[str, str] | tuple[str, str, int]
"""Old text, new text, and how often the old one occurs if not once."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
      group: What it is about, such as `barriers`.
      name: A few words; unique among the kinds.
      what: What is wrong, and what comes of it.
    """

    group: str
    name: str
    what: str


@dataclasses.dataclass(frozen=True)
class Base:
    """A right kernel.

    Attributes:
      name: An identifier, unique among the kernels.
      schedule: What schedule it has; several kernels may share one.
      source: The module's text.
      request: The sizes at which it is verified.
    """

    name: str
    schedule: str
    source: str
    request: Request


@dataclasses.dataclass(frozen=True)
class Fault:
    """A kind of fault, planted by the same edits into several kernels.

    Attributes:
      kind: The kind.
      bases: Names of the kernels.
      edits: What is replaced; every old text occurs exactly as often as it says.
      variant: Tells it from another fault of the same kind in the same kernel.
      sizes: m, n and k that replace those of the kernel's request.
    """

    kind: Kind
    bases: tuple[str, ...]
    edits: tuple[Edit, ...]
    variant: str = ""
    sizes: tuple[int, int, int] | None = None


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A kernel with one fault.

    Attributes:
      name: An identifier, unique among the mutants, and the module's name.
      kind: What is wrong with it.
      schedule: Schedule of its kernel.
      source: The module's text.
      request: What it is verified for; the kernel without the fault passes it.
      base: Name of that kernel.
    """

    name: str
    kind: Kind
    schedule: str
    source: str
    request: Request
    base: str


def name_of(fault: Fault, base: str) -> str:
    """Returns the name of the mutant of a kernel, given the kernel's name."""
    words = " ".join(word for word in (fault.kind.name, fault.variant) if word)
    return f"{base}__{re.sub(r'[^a-z0-9]+', '_', words.lower())}"


def planted(fault: Fault, base: Base) -> Mutant:
    """Plants a fault into a kernel.

    Raises:
      ValueError: an old text does not occur as often as the edit says.
    """
    name, source = name_of(fault, base.name), base.source
    for edit in fault.edits:
        old, new, times = (*edit, 1)[:3]
        if source.count(old) != times:
            raise ValueError(f"{name}: {old!r} occurs {source.count(old)} times")
        source = source.replace(old, new)
    request = resized(base.request, fault.sizes) if fault.sizes else base.request
    request = dataclasses.replace(request, name=name, source=source)
    return Mutant(name, fault.kind, base.schedule, source, request, base.name)


def digest(kernel: Mutant | Base) -> str:
    """Returns a digest of what a kernel does: words and refusals do not count."""
    request = dataclasses.asdict(kernel.request)
    request["source"] = code_of_kernel(kernel.source)
    for case in request["cases"]:
        if case["num_sms"] is None:
            del case["num_sms"]
        for name in LATER:
            if not case[name]:
                del case[name]
    parts = [request[field] for field in ("source", "layout", "operand_dtype", "cases")]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def code_of_kernel(source: str) -> str:
    """Returns code without what nothing runs on a GPU for.

    That is docstrings, comments and layout, checks of operands and arguments, and what
    refuses derivatives.
    """
    return ast.unparse(_OfKernel().visit(ast.parse(source)))


class _OfKernel(ast.NodeTransformer):
    """Leaves out what `code_of_kernel` does."""

    def visit_Module(self, node: ast.Module) -> ast.AST:
        return self._without_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        decorators = map(ast.unparse, node.decorator_list)
        if node.name.startswith("_check_") or node.name == "_forward_only":
            return None
        if "_forward_only.defjvp" in decorators:
            return None
        return self._without_docstring(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.args:
            case [
                ast.Starred(value=ast.Call(func=ast.Name(id="_forward_only")) as all)
            ]:
                node.args = all.args
        return node

    def _without_docstring[Node: (ast.Module, ast.FunctionDef)](
        self, node: Node
    ) -> Node:
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        self.generic_visit(node)
        return node


def resized(request: Request, sizes: tuple[int, int, int]) -> Request:
    """Returns the request for one other size."""
    m, n, k = sizes
    (case,) = request.cases
    return dataclasses.replace(
        request, cases=(dataclasses.replace(case, m=m, n=n, k=k),)
    )
