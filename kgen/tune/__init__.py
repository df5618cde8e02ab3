"""The search for the fastest legal kernel of a spec at one shape.

    space -> prune -> cost (order) -> pool of workers (measure) -> choose -> write, page

What can be tried, and which of it is legal, is decided without a GPU; only the workers
(`kgen.tune.worker`) import JAX.
"""
