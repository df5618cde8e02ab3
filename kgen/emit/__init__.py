"""Emission: from a plan to the final text of its files, and their way to the disk."""
