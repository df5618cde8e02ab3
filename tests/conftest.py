"""What all tests share: some have no JAX, and no text is formatted twice."""

import collections
import functools
import sys

import pytest
from oldest import IS_OLDEST_JAX

from kgen.emit import render

# Black takes most of the time of rendering, and the same text gives the same bytes.
render.format_source = functools.cache(render.format_source)


@pytest.fixture(autouse=True)
def _without_jax(request, monkeypatch):
    """Sees to it that a test with this mark depends on no JAX: it cannot import one."""
    if request.node.get_closest_marker("without_jax") is None:
        return
    if IS_OLDEST_JAX:
        pytest.skip("imports no JAX: run with a newer one, not again with the oldest")
    monkeypatch.setitem(sys.modules, "jax", None)


def pytest_terminal_summary(terminalreporter):
    """Says what was left out, and why."""
    skipped = terminalreporter.getreports("skipped")
    reasons = (report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in collections.Counter(reasons).most_common():
        terminalreporter.line(f"{count} skipped: {reason}")
