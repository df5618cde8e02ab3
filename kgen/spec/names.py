"""What a kernel, and with it a Python module and its test, may be called."""

import dataclasses
import keyword
import re
import unicodedata
from collections.abc import Iterator

from kgen.spec.standard_library import STANDARD_LIBRARY

MAX_LENGTH = 100

_ALLOWED = (
    "ASCII letters, digits and _, not beginning with a digit;"
    f" at most {MAX_LENGTH} characters"
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# A module of one of these names, on the same path, is imported instead of the real one:
# by what the module imports, by pytest and its plugins, or by Python itself. Some are
# only tried: that they are missing must not let a kernel take their place.
_IMPORTED = """
    absl jax jax_cuda12_plugin jax_cuda13_plugin jax_plugins jaxlib kgen libtpu
    ml_dtypes numpy nvidia opt_einsum scipy triton
    IPython cffi charset_normalizer cloudpickle colorama cupy etils filelock flatbuffers
    google kubernetes matplotlib mlir mpi4py mpmath numba pandas platformdirs
    portpicker psutil requests rich setuptools sympy tensorflow tensorstore theano
    threadpoolctl torch uarray web_pdb xprof yaml zstandard
    _hypothesis_ftz_detector _hypothesis_globals _hypothesis_pytestplugin _pytest
    argcomplete attr attrs exceptiongroup execnet hypothesis iniconfig
    packaging pexpect pkg_resources pluggy py pygments pytest pytest_timeout
    setproctitle sortedcontainers tomli twisted typing_extensions xdist zope
    sitecustomize usercustomize
    """
# Names that the generated files give to something else.
_TAKEN = frozenset({"jnp", "lax", "matmul", "module", "np", "pl", "plgpu", "reference"})
_WINDOWS_DEVICES = frozenset(
    ["aux", "con", "nul", "prn"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)]
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NameFault:
    """Why a name is refused.

    Attributes:
      reason: Continues the sentence that begins with the name.
      allowed: How a name is written; None if it is well written, but taken.
      suggestion: A name close by that is accepted, or None.
    """

    reason: str
    allowed: str | None
    suggestion: str | None


def name_fault(name: str) -> NameFault | None:
    """Returns why a kernel cannot be called `name`; None if it can."""
    reason = _reason(name)
    if reason is None:
        return None
    well_written = _IDENTIFIER.fullmatch(name) and len(name) <= MAX_LENGTH
    suggestion = _suggest(name)
    return NameFault(
        reason=reason,
        allowed=None if well_written else _ALLOWED,
        suggestion=suggestion if _reason(suggestion) is None else None,
    )


def _reason(name: str) -> str | None:
    return next(_reasons(name), None)


def _reasons(name: str) -> Iterator[str]:
    if not name:
        yield "is empty"
    if not _IDENTIFIER.fullmatch(name):
        yield "is not an ASCII Python identifier"
    if len(name) > MAX_LENGTH:
        yield f"has {len(name)} characters"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        yield "is a keyword of Python"
    if name.startswith("__") and name.endswith("__"):
        yield "is a name that Python reserves"
    if name in STANDARD_LIBRARY:
        yield "would shadow a module of Python's standard library"
    if name in _IMPORTED.split():
        yield "would shadow a module that the kernel needs"
    if name in _TAKEN:
        yield "is a name that the generated files use otherwise"
    if name.startswith("test_") or name.endswith("_test") or name == "conftest":
        yield "would make pytest collect the module as tests"
    if name.lower() in _WINDOWS_DEVICES:
        yield "is a device on Windows, where no file can be called so"


def _suggest(name: str) -> str:
    """Returns a likely intended name; it may be no better than `name`."""
    letters = unicodedata.normalize("NFKD", name)
    text = "".join(letter for letter in letters if not unicodedata.combining(letter))
    if any(letter.isalnum() and not letter.isascii() for letter in text):
        return name  # Another script; nothing is close by.
    text = re.sub(r"[^A-Za-z0-9_]+", "_", text)
    if text.startswith("__") or text != name:
        text = text.strip("_")
    text = text.removeprefix("test_").removesuffix("_test")[:MAX_LENGTH]
    if text[:1].isdigit():
        text = f"matmul_{text}"[:MAX_LENGTH]
    if text and _reason(text) is not None:
        text = f"{text}_kernel"
    return text
