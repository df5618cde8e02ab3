"""What every rendered text must obey, whoever wrote its template."""

import ast
import textwrap
from collections.abc import Iterator, Mapping

# What the top level of a module or a test is made of, after the docstring.
STATEMENTS = (
    ast.Import,
    ast.ImportFrom,
    ast.Assign,
    ast.AnnAssign,
    ast.FunctionDef,
    ast.ClassDef,
    ast.If,
)
# What makes code of text, or imports what no import statement names.
MAKES_CODE = frozenset({"__import__", "compile", "eval", "exec"})
# Characters of a line that messages show.
LONGEST_SHOWN = 120


class OutputError(ValueError):
    """A rendered text is not what it must be.

    Attributes:
      line: Line of the text, from 1.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def check(text: str, *, doc: str, constants: Mapping[str, object]) -> None:
    """Checks that rendered Python is standalone and that a spec's text stayed data.

    Args:
      text: The rendered file, formatted or not.
      doc: What its docstring must begin with, white space apart.
      constants: Values of those names that the plan decides, should the top level
        assign them.

    Raises:
      OutputError: it is not.
    """
    module = _parse(text)
    for find in (_statements, _imports):
        for line, message in find(module):
            raise OutputError(line, message)
    words = (ast.get_docstring(module) or "").split()
    if words[: len(doc.split())] != doc.split():
        line = module.body[0].lineno if module.body else 1
        raise OutputError(line, "yields another docstring than meant")
    for line, message in _changed(module, constants):
        raise OutputError(line, message)


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", str(error))
        shown = "".join(text.splitlines()[line - 1 : line]).strip()
        shown = textwrap.shorten(shown, LONGEST_SHOWN, placeholder=" ...")
        raise OutputError(line, f"yields invalid Python: {reason}: {shown}") from None


def _statements(module: ast.Module) -> Iterator[tuple[int, str]]:
    for statement in module.body[ast.get_docstring(module) is not None :]:
        if not (
            isinstance(statement, STATEMENTS)
            or _sets_gradient(statement)
            or _sets_default(statement)
        ):
            kind = type(statement).__name__
            yield (
                statement.lineno,
                f"yields a statement that does not belong there: {kind}",
            )


def _sets_gradient(statement: ast.stmt) -> bool:
    """Whether a statement is `NAME.defvjp(NAME, NAME)`, the only way to set a rule."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "defvjp"
        and isinstance(call.func.value, ast.Name)
        and not call.keywords
        and all(isinstance(argument, ast.Name) for argument in call.args)
    )


def _sets_default(statement: ast.stmt) -> bool:
    """Whether a statement is `os.environ.setdefault(TEXT, TEXT)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func) == "os.environ.setdefault"
        and not call.keywords
        and all(isinstance(argument, ast.Constant) for argument in call.args)
    )


def _imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields what a module of other people's repositories must not touch."""
    for node in ast.walk(module):
        names: list[str] = []
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        elif isinstance(node, ast.Name) and node.id in MAKES_CODE:
            yield line, f"uses {node.id}, which makes code of data"
        for name in names:
            parts = name.split(".")
            if parts[0] == "kgen":
                yield line, "uses kgen, which no generated file may depend on"
            if parts[:2] == ["jax", "_src"]:
                yield line, "uses jax._src, which is private to JAX"


def _changed(
    module: ast.Module, constants: Mapping[str, object]
) -> Iterator[tuple[int, str]]:
    """Yields the constants whose literals are not what the plan says."""
    for statement in module.body:
        for name, value in assigned(statement):
            if name in constants and value != constants[name]:
                yield (
                    statement.lineno,
                    f"sets {name} = {value!r}, where the plan says {constants[name]!r}",
                )


def assigned(statement: ast.stmt) -> Iterator[tuple[str, object]]:
    """Yields names and literals of `A = 1` and `A, B = 1, 2`."""
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = list(zip(target.elts, statement.value.elts, strict=False))
        for name, value in pairs:
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                yield name.id, value.value
