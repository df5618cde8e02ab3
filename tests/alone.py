"""Modules and their tests in a directory without kgen."""

import os
import subprocess
import sys

# Whoever imports kgen there fails.
NO_KGEN = 'raise ImportError("kgen is not here")\n'


def run_tests(directory, *options):
    environment = {key: v for key, v in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=directory,
        env={**environment, "PYTHONPATH": ".", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
