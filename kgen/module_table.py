"""Reads from the text of a module that picks kernels what it must pick."""

import ast
import re
from collections.abc import Mapping

from kgen import module_text
from kgen.arch import ARCHS
from kgen.verify.table import Kernel, Shape, Table

BUCKETS = "BUCKETS"
_LIMIT = re.compile(r"^MAX_M = ", re.MULTILINE)


def read(text: str, beside: Mapping[str, str]) -> Table | None:
    """Returns the table of a module; None if it has none that can be read.

    What each kernel can do is what its own module says.

    Args:
      text: The module's text.
      beside: The texts of the modules that it imports from beside it, by name.

    Raises:
      SyntaxError: a text is not Python.
    """
    buckets = _buckets(text)
    names = set(buckets.values())
    if not names or not names <= beside.keys():
        return None
    try:
        kernels = {name: _kernel(beside[name]) for name in sorted(names)}
    except module_text.NotDescribedError:
        return None
    return Table(kernels=kernels, buckets=buckets)


def _buckets(text: str) -> dict[Shape, str]:
    """Returns the literal that BUCKETS is assigned; nothing if it is none of the kind."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == BUCKETS:
            try:
                found = ast.literal_eval(node.value)
            except ValueError:
                return {}
            return found if _is_table(found) else {}
    return {}


def _is_table(found: object) -> bool:
    return isinstance(found, dict) and all(
        isinstance(size, tuple)
        and [type(each) for each in size] == [int] * 3
        and min(size) > 0
        and isinstance(name, str)
        for size, name in found.items()
    )


def _kernel(text: str) -> Kernel:
    described = module_text.describe(text)
    # CUDA launches no more CTAs along the dimension that the tiles along m then are.
    most = ARCHS[described.arch].max_grid_yz * described.tile[0]
    return Kernel(described.multiples, most if _LIMIT.search(text) else None)
