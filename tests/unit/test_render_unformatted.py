"""A module as its template yields it: without black, and the same to Python."""

import ast
import sys

import made

from kgen.emit.render import render, render_unformatted, template_digest

SPEC = "[schedule]\nwarp_specialized = true\n"


def test_it_is_the_rendered_module_to_python(tmp_path):
    plan = made.plan(tmp_path, SPEC)
    module = render(plan, verified=False)
    text = render_unformatted(plan)
    assert text != module.source
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(module.source))
    assert template_digest(plan.op) == module.template_digest


def test_it_needs_no_formatter(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "black", None)
    assert "def matmul(" in render_unformatted(made.plan(tmp_path, SPEC))
