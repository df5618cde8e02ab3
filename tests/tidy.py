"""What a reader strikes out of code: names that nothing reads, and loops of one turn."""

import ast

LOOPS = ast.For | ast.comprehension
WRITTEN = ast.Tuple | ast.List


def unused(tree):
    """Returns the names that nothing reads, but for those that say so themselves."""
    return {
        name
        for names, code in scopes(tree)
        for name in names - read(code)
        if name.strip("_")
    }


def loops_of_one(tree):
    """Returns the lines of loops over fewer than two things that are written out."""
    loops = [each for each in ast.walk(tree) if isinstance(each, LOOPS)]
    written = [each.iter for each in loops if isinstance(each.iter, WRITTEN)]
    return [each.lineno for each in written if len(each.elts) < 2]


def scopes(tree):
    """Yields names and the code that may read them."""
    closed = ast.FunctionDef | ast.ClassDef
    parts = [
        [each] if isinstance(each, closed) else ast.walk(each) for each in tree.body
    ]
    yield names_of(parts), tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            code = node.body if isinstance(node.body, list) else [node.body]
            yield names_of(map(ast.walk, code)), code
            if not is_rule(node):
                arguments = ast.walk(node.args)
                yield {arg.arg for arg in arguments if isinstance(arg, ast.arg)}, code


def is_rule(function):
    """Whether it is the rule of a derivative, whose parameters JAX tells."""
    decorators = getattr(function, "decorator_list", ())
    return any(getattr(each, "attr", "") == "defjvp" for each in decorators)


def names_of(parts):
    return {name for nodes in parts for node in nodes for name in defined(node)}


def defined(node):
    """Yields the names that a statement or a target itself defines."""
    match node:
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                yield (alias.asname or alias.name).partition(".")[0]
        case ast.FunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Name(ctx=ast.Store()):
            yield node.id


def read(code):
    """Returns the names that code reads."""
    return {
        node.id
        for each in code
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
