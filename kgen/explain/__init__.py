"""A plan explained: every figure of it, and what it means for one shape."""

from kgen.explain.figures import explain
from kgen.explain.shape import check_shape, default_shape
from kgen.explain.text import tables

__all__ = ["check_shape", "default_shape", "explain", "tables"]
