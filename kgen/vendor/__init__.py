"""Kernels in another repository, and the lock file that keeps them honest.

`lockfile` is the data, `sources` finds the specs, `compare` tells what differs,
`update` writes, and `hints` say what to do.
"""
