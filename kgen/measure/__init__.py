"""Measures kernels on a GPU: their time, and that of others beside them.

Nothing here runs at import; JAX is imported where it is used.
"""
