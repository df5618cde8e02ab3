"""Reads a kernel's own text, to name its operands and the lines that are to change."""

import ast
import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import Path

_MADE_UP = re.compile(r"^(|refs\[\d+\])$")
_SUFFIX = re.compile(r"_(gmem|smem|hbm|ref)$")
_FUNCTION = re.compile(r"^(?P<name>\S+) at (?P<file>.*):(?P<line>\d+)$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """A call of `BlockSpec` in a module.

    Attributes:
      line: Where the call begins.
      set_at: Line that says what its `delay_release` is; None if it has none.
    """

    line: int
    set_at: int | None


def parameters(names: Sequence[str], body: str) -> list[str]:
    """Returns names for the operands and results of a kernel, in that order.

    Args:
      names: What JAX calls them; `plgpu.kernel` lets it see no more than `refs[0]`.
      body: The function that the kernel was written as, `name at file:line`.
    """
    written = _positional(body)
    named = []
    for index, name in enumerate(names):
        if _MADE_UP.match(name):
            known = index < len(written)
            named.append(written[index] if known else f"operand {index}")
        else:
            named.append(name)
    return [short(name) for name in named]


def short(name: str) -> str:
    """Returns a name without the suffix that tells its memory space."""
    return _SUFFIX.sub("", name)


def block_specs(module: Path) -> list[BlockSpec]:
    """Returns the calls of `BlockSpec` in a module, as they come; not `out_specs`."""
    tree = _tree(module)
    outputs = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "out_specs"
        for inner in ast.walk(node.value)
    }
    calls = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node not in outputs
    )
    specs = [
        BlockSpec(line=call.lineno, set_at=_set_at(call, tree))
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] == "BlockSpec"
    ]
    return sorted(specs, key=lambda spec: spec.line)


def barrier_line(name: str, module: Path) -> int | None:
    """Returns the line that makes the barrier of that name."""
    made = re.compile(rf"\b{re.escape(name)}\b.*Barrier\(")
    lines = module.read_text(encoding="utf-8").splitlines()
    return next((n for n, line in enumerate(lines, 1) if made.search(line)), None)


def _set_at(call: ast.Call, tree: ast.AST) -> int | None:
    """Returns the line of a `BlockSpec`'s delay, or of the constant that it is."""
    values = [k.value for k in call.keywords if k.arg == "delay_release"]
    if not values:
        return None
    name = ast.unparse(values[0])
    constants = [
        node.lineno
        for node in ast.iter_child_nodes(tree)
        if isinstance(node, ast.Assign)
        and any(ast.unparse(target) == name for target in node.targets)
    ]
    return constants[-1] if constants else values[0].lineno


def _positional(body: str) -> list[str]:
    """Returns the positional parameters of a function."""
    match = _FUNCTION.match(body)
    if match is None:
        return []
    for node in ast.walk(_tree(Path(match["file"]))):
        if isinstance(node, ast.FunctionDef) and node.name == match["name"]:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= int(match["line"]) <= node.lineno:
                return [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    return []


@functools.cache
def _tree(path: Path) -> ast.AST:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])
