"""Kernels with planted faults: the proof of the prover."""
