"""Which names a kernel may have."""

import ast
import importlib.util
import keyword
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.spec.names import MAX_LENGTH, NameFault, name_fault
from kgen.spec.standard_library import STANDARD_LIBRARY


@pytest.mark.parametrize(
    "name",
    [
        "fp16_128x128",
        "gemm",
        "_gemm",
        "__gemm",
        "testing_gemm",
        "Numpy",
        "com10",
        "jax_gemm",
        "x" * MAX_LENGTH,
    ],
)
def test_accepted(name):
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "reason", "suggestion"),
    [
        ("gemm\n", "is not an ASCII Python identifier", "gemm"),
        ("fp16.128", "is not an ASCII Python identifier", "fp16_128"),
        ("1" * 100, "is not an ASCII Python identifier", "matmul_" + "1" * 93),
        ("modèle", "is not an ASCII Python identifier", "modele"),
        ("ﬁt", "is not an ASCII Python identifier", "fit"),
        ("٣", "is not an ASCII Python identifier", None),
        ("---", "is not an ASCII Python identifier", None),
        ("_", "is a keyword of Python", "__kernel"),
        ("None", "is a keyword of Python", "None_kernel"),
        ("____", "is a name that Python reserves", None),
        ("__main__", "is a name that Python reserves", "main"),
        ("jax", "would shadow a module that the kernel needs", "jax_kernel"),
        ("kgen", "would shadow a module that the kernel needs", "kgen_kernel"),
        (
            "typing",
            "would shadow a module of Python's standard library",
            "typing_kernel",
        ),
        ("matmul", "is a name that the generated files use otherwise", "matmul_kernel"),
        ("gemm_test", "would make pytest collect the module as tests", "gemm"),
        ("test_", "would make pytest collect the module as tests", None),
        ("Aux", "is a device on Windows, where no file can be called so", "Aux_kernel"),
    ],
)
def test_refused(name, reason, suggestion):
    fault = name_fault(name)
    assert fault is not None
    assert (fault.reason, fault.suggestion) == (reason, suggestion)


def test_how_names_are_written_is_told_only_where_that_is_the_fault():
    written = "ASCII letters, digits and _, not beginning with a digit; at most 100 characters"
    assert name_fault("x" * 101) == NameFault(
        reason="has 101 characters", allowed=written, suggestion="x" * 100
    )
    taken = name_fault("numpy")
    assert taken is not None
    assert taken.allowed is None


def test_everything_that_generated_files_import_is_refused():
    files = "jax jnp lax pl plgpu np numpy functools pytest absl ml_dtypes typing kgen"
    for name in [*files.split(), "module", "matmul", "reference", "jaxlib"]:
        assert name_fault(name) is not None, name


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (
            # Of 3.12 only, of 3.13, of 3.14, of another platform.
            "telnetlib _pyrepl annotationlib compression winreg",
            "would shadow a module of Python's standard library",
        ),
        (
            "py xdist hypothesis zstandard etils cloudpickle execnet pytest_timeout"
            " typing_extensions torch",
            "would shadow a module that the kernel needs",
        ),
    ],
)
def test_names_are_refused_whatever_is_installed_here(names, reason):
    for name in names.split():
        fault = name_fault(name)
        assert fault is not None, name
        assert fault.reason == reason, name


def test_this_python_has_no_module_beyond_those_refused():
    assert sys.stdlib_module_names - STANDARD_LIBRARY == set()


@pytest.mark.parametrize("package", ["jax", "_pytest", "xdist", "pluggy"])
def test_what_libraries_import_is_refused(package):
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed")
    found = set()
    for path in Path(spec.origin).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module)
    tops = {name.partition(".")[0] for name in found}
    assert [name for name in sorted(tops) if name_fault(name) is None] == []


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=110)
    | st.sampled_from([*keyword.kwlist, *keyword.softkwlist])
    | st.sampled_from(sorted(STANDARD_LIBRARY))
)
def test_accepted_names_are_identifiers_and_suggestions_are_accepted(name):
    fault = name_fault(name)
    if fault is None:
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name)
        assert not keyword.iskeyword(name)
        assert name not in STANDARD_LIBRARY
    elif fault.suggestion is not None:
        assert name_fault(fault.suggestion) is None
