"""Epilogues: what is done to the accumulator, step by step, before it is stored."""
