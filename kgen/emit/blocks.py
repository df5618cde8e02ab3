"""Blocks of a template that override nothing: Jinja passes over them without a word."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kgen.spec.keys import closest

if TYPE_CHECKING:
    from jinja2 import nodes


def lost_block(
    tree: "nodes.Template", parsed: "Callable[[str], nodes.Template | None]"
) -> tuple[int, str] | None:
    """Returns the line of a block that is in nothing a template extends, and a message.

    None if there is no such block, or what the template extends cannot be read.

    Args:
      tree: The template.
      parsed: Returns a template by its name; None if it is missing.
    """
    from jinja2 import nodes

    known = _inherited(tree, parsed)
    if not known:
        return None
    # A block of its own may still be called: `self.name()`.
    called = {
        node.attr
        for node in tree.find_all(nodes.Getattr)
        if isinstance(node.node, nodes.Name) and node.node.name == "self"
    }
    for block in tree.body:
        if isinstance(block, nodes.Block) and block.name not in known | called:
            near = closest(block.name, sorted(known))
            hint = f"did you mean {near}?" if near else f"it has {_listed(known)}"
            text = f"there is no block {block.name} in what it extends"
            return block.lineno, f"{text}\n  hint: {hint}"
    return None


def _inherited(
    tree: "nodes.Template", parsed: "Callable[[str], nodes.Template | None]"
) -> set[str]:
    """Returns the blocks of all that a template extends; none if that is not known."""
    from jinja2 import nodes

    found: set[str] = set()
    seen: set[str] = set()
    parents = list(tree.find_all(nodes.Extends))
    while parents:
        name = getattr(parents.pop().template, "value", None)
        if not isinstance(name, str) or name in seen:
            return set()
        seen.add(name)
        parent = parsed(name)
        if parent is None:
            return set()
        found |= {block.name for block in parent.find_all(nodes.Block)}
        parents += parent.find_all(nodes.Extends)
    return found


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
