"""Reads from a module's text what it computes, without running it.

A rendered module says so in its docstring, which stays true when somebody edits the
kernel by hand:

    a    float16[m, k]    m a multiple of 128, k of 64
    b    float16[k, n]    n a multiple of 128
    out  float16[m, n]    accumulated in float32

The steps of an epilogue are listed there, too: see `kgen.epilogue.steps`.
"""

import ast
import dataclasses
import re

from kgen.emit.checks import assigned
from kgen.epilogue import steps
from kgen.epilogue.steps import Step
from kgen.float8 import FLOAT8
from kgen.layouts import COLUMN, LAYOUTS, ROW, operand_dims

OUT_DTYPES = ("float16", "bfloat16", "float32")
DTYPES = (*OUT_DTYPES, *FLOAT8)
STAGES, CLUSTER = "MAX_CONCURRENT_STEPS", "CLUSTER"
NUM_SMS = "num_sms"
GLU_NAMES = {"x": "a", "w_gate": "b", "w_up": "b"}
"""What the operands of a gated linear unit are called in a matmul."""

_ARRAY = re.compile(
    r"^ {4}(?P<name>a|b|out|x|w_gate|w_up) +(?P<dtype>\w+)\[(?P<lead>\.\.\., )?(?P<axes>\w, \w)\](?P<remark>.*)$",
    re.MULTILINE,
)
_MULTIPLE = re.compile(r"\b([mnk])(?: a multiple)? of (\d+)")
_PROMOTED = re.compile(r"\bpromoted every (\d+) of k\b")
_SCALED = re.compile(r"^ {4}a_scale +float32\[m, k / (\d+)\]$", re.MULTILINE)
_ARCH = re.compile(r"\((sm_\w+)\)")
_GATE = re.compile(
    r"# (silu|gelu)\(x @ w_gate(?:\.T)?\) \* \(x @ w_up(?:\.T)?\)$", re.MULTILINE
)
_GRADIENTS = re.compile(
    r"It has gradients: .*?, for "
    r"(?:any m, n and k|m a multiple of (\d+), n of (\d+) and k of (\d+))\."
)
_IMPORT = re.compile(r"^ {4}from [\w.]+ import (\w+)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Described:
    """What a module's docstring says.

    Attributes:
      function: Name of the public function.
      arch: GPU architecture.
      layout: `nn`, `nt`, `tn` or `tt`: see `kgen.layouts`.
      out_order: `row`, or `column` if the result is [n, m].
      operand_dtype: Elements of A.
      b_dtype: Elements of B.
      out_dtype: Elements of the result.
      multiples: What m, n and k must be multiples of.
      tile: Rows, columns and depth of a tile; ones if the module does not name them.
      stages: Slots of the ring; 1 if the module names no number of them.
      cluster: CTAs of a cluster; 1 if the module names no number of them.
      persistent: Whether the function can be told of how many SMs there are.
      epilogue: Steps between the product and the result.
      promoted: Elements of k after which the sum is promoted; 0 for all.
      scale_block: Elements of k that share a scale; 0 without scales.
      activation: Of a gated linear unit: `silu` or `gelu`; else empty.
      batched: Whether operands and result may have leading dimensions.
      to_differentiate: What m, n and k must be multiples of for its gradients; None if
        it has none.
    """

    function: str
    arch: str
    layout: str
    out_order: str
    operand_dtype: str
    b_dtype: str
    out_dtype: str
    multiples: tuple[int, int, int]
    tile: tuple[int, int, int]
    stages: int
    cluster: int
    persistent: bool
    epilogue: tuple[Step, ...] = ()
    promoted: int = 0
    scale_block: int = 0
    activation: str = ""
    batched: bool = False
    to_differentiate: tuple[int, int, int] | None = None


class NotDescribedError(ValueError):
    """The text does not say what its module computes; the message says what lacks."""


def describe(text: str) -> Described:
    """Returns what a rendered module's docstring says.

    Raises:
      NotDescribedError: there is no such docstring.
      SyntaxError: the text is not Python.
    """
    tree = ast.parse(text)
    docstring = ast.get_docstring(tree, clean=False) or ""
    arrays = {
        GLU_NAMES.get(match["name"], match["name"]): match
        for match in _ARRAY.finditer(docstring)
    }
    gate = _GATE.search(docstring)
    function, arch = _IMPORT.search(docstring), _ARCH.search(docstring)
    if arrays.keys() != {"a", "b", "out"} or not function or not arch:
        raise NotDescribedError("its docstring does not list a, b and out")
    dtypes = [arrays[name]["dtype"] for name in ("a", "b", "out")]
    layouts = {operand_dims(layout): layout for layout in LAYOUTS}
    orders = {"m, n": ROW, "n, m": COLUMN}
    axes = [arrays[name]["axes"] for name in ("a", "b", "out")]
    if (axes[0], axes[1]) not in layouts or axes[2] not in orders:
        raise NotDescribedError(f"its docstring has operands [{'] and ['.join(axes)}]")
    known = set(dtypes) <= set(DTYPES) and dtypes[2] in OUT_DTYPES
    if not known or (dtypes[0] != dtypes[1] and not set(dtypes[:2]) <= set(FLOAT8)):
        raise NotDescribedError(f"its docstring has the dtypes {', '.join(dtypes)}")
    # Of two weights, the first tells what both must be multiples of.
    remarks = "".join(match["remark"] for match in _ARRAY.finditer(docstring))
    scaled = _SCALED.search(docstring)
    promoted = _PROMOTED.search(arrays["out"]["remark"])
    multiples = {axis: int(size) for axis, size in _MULTIPLE.findall(remarks)}
    return Described(
        function=function[1],
        arch=arch[1],
        layout=layouts[axes[0], axes[1]],
        out_order=orders[axes[2]],
        operand_dtype=dtypes[0],
        b_dtype=dtypes[1],
        out_dtype=dtypes[2],
        multiples=(
            multiples.get("m", 1),
            multiples.get("n", 1),
            multiples.get("k", 1),
        ),
        tile=_tile(tree),
        stages=_integer(tree, STAGES),
        cluster=_integer(tree, CLUSTER),
        persistent=_takes(tree, function[1], NUM_SMS),
        epilogue=_epilogue(docstring),
        promoted=int(promoted[1]) if promoted else 0,
        scale_block=int(scaled[1]) if scaled else 0,
        activation=gate[1] if gate else "",
        batched=all(array["lead"] for array in arrays.values()),
        to_differentiate=_to_differentiate(docstring),
    )


def _to_differentiate(docstring: str) -> tuple[int, int, int] | None:
    found = _GRADIENTS.search(" ".join(docstring.split()))
    if found is None:
        return None
    m, n, k = (int(size or 1) for size in found.groups())
    return m, n, k


def _epilogue(docstring: str) -> tuple[Step, ...]:
    try:
        return steps.read(docstring)
    except ValueError as error:
        raise NotDescribedError(f"its docstring lists {error}") from error


def functions(text: str) -> tuple[str, ...]:
    """Returns the names of a module's own top-level functions.

    Raises:
      SyntaxError: the text is not Python.
    """
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [t.id for t in node.targets if isinstance(t, ast.Name)]
        elif isinstance(node, ast.ImportFrom):
            found += [name.asname or name.name for name in node.names]
    return tuple(found)


def offered(text: str) -> tuple[str, ...]:
    """Returns those of a module's functions that a user may mean: public, and its own.

    Raises:
      SyntaxError: the text is not Python.
    """
    imported = (
        name.asname or name.name
        for node in ast.parse(text).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    )
    others = set(imported)
    return tuple(
        name
        for name in functions(text)
        if name not in others and not name.startswith("_") and not name.isupper()
    )


def _takes(tree: ast.Module, function: str, keyword: str) -> bool:
    """Whether a top-level function of the module has a keyword-only argument."""
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == function
        and keyword in [argument.arg for argument in node.args.kwonlyargs]
        for node in tree.body
    )


def _tile(tree: ast.Module) -> tuple[int, int, int]:
    """Returns the constants TILE_M, TILE_N and TILE_K; ones for what is not there."""
    found = {name: value for node in tree.body for name, value in assigned(node)}
    m, n, k = (found.get(f"TILE_{axis}") for axis in "MNK")
    known = isinstance(m, int) and isinstance(n, int) and isinstance(k, int)
    return (m, n, k) if known else (1, 1, 1)  # type: ignore[return-value]


def _integer(tree: ast.Module, name: str) -> int:
    """Returns the number that a module assigns to a constant; 1 if it is no number."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if name in names and type(node.value.value) is int:
                return node.value.value
    return 1
