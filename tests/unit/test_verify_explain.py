"""Exceptions as one line with a place."""

import linecache

import pytest

from kgen.verify.explain import explain, explain_refusal

FILE = "some_module.py"


def raised_by(path, source, **names):
    """Runs source text as a file's and returns the exception."""
    path.write_text(source)
    linecache.checkcache()
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        exec(compile(source, str(path), "exec"), names)  # noqa: S102
    return caught.value


@pytest.fixture
def failing(tmp_path):
    """Runs source text as a module's and returns the explained exception."""

    def fail(source, **names):
        path = tmp_path / FILE
        return explain(raised_by(path, source, **names), path)

    return fail


def test_an_error_of_the_module_itself(failing):
    assert failing("x = 1\nraise ValueError('bad')\n") == (
        "ValueError: bad; at some_module.py:2: raise ValueError('bad')"
    )


def test_the_innermost_line_of_the_module_is_told(failing):
    source = "def f():\n    return 1 / 0\n\nf()\n"
    assert failing(source) == (
        "ZeroDivisionError: division by zero; at some_module.py:2: return 1 / 0"
    )


@pytest.fixture
def asserted(tmp_path):
    """An assertion of JAX on the way from a module, and the module's file."""
    upstream = tmp_path / "site-packages" / "jax" / "core.py"
    upstream.parent.mkdir(parents=True)
    source = "def check(n):\n    assert n % 64 == 0\n"
    upstream.write_text(source)
    names = {}
    exec(compile(source, str(upstream), "exec"), names)  # noqa: S102
    path = tmp_path / FILE
    return raised_by(path, "n = 72\ncheck(n)\n", check=names["check"]), path


def test_an_assertion_without_a_message_says_who_asserted(asserted):
    assert explain(*asserted) == (
        "AssertionError without a message, raised by check (jax/core.py:2:"
        " assert n % 64 == 0); at some_module.py:2: check(n)"
    )


def test_a_rule_that_may_be_broken_is_told_where_jax_refuses(asserted):
    assert explain_refusal(*asserted, ("KG101", "KG402")) == (
        "JAX refuses a kernel that is allowed to break KG101, KG402\n"
        "  found: AssertionError without a message, raised by check (jax/core.py:2:"
        " assert n % 64 == 0)\n"
        "  at: some_module.py:2: check(n)\n"
        "  hint: obey the rule, and remove it from verify.allow; see `kgen rule KG101`"
    )


def test_without_such_a_rule_the_error_is_told_alone(asserted):
    assert explain_refusal(*asserted, ()) == explain(*asserted)


def test_what_the_module_raises_itself_is_no_matter_of_rules(tmp_path):
    path = tmp_path / FILE
    error = raised_by(path, "raise ValueError('bad')\n")
    assert explain_refusal(error, path, ("KG101",)) == explain(error, path)


def test_the_place_is_found_in_a_cause(tmp_path):
    path = tmp_path / FILE
    cause = raised_by(path, "x = {}\nx['key']\n")
    error = ValueError("later")
    error.__cause__ = cause
    assert explain(error, path) == "ValueError: later; at some_module.py:2: x['key']"


def test_an_error_without_a_place_is_told_all_the_same(tmp_path):
    assert explain(ValueError("bad"), tmp_path / FILE) == "ValueError: bad"


def test_a_syntax_error(failing):
    assert failing("x = 1\ndef f(:\n") == (
        "SyntaxError: invalid syntax; at some_module.py:2: def f(:"
    )


def test_several_lines_become_one(failing):
    assert failing("raise ValueError('a\\n\\n   b  ')\n").startswith(
        "ValueError: a b; at "
    )


def test_a_long_message_is_cut(failing):
    text = failing("raise ValueError('x' * 1000)\n")
    assert text.startswith(f"ValueError: {'x' * 400} ...; at")


def test_mosaic_verifier_errors_lose_their_preamble(failing):
    text = failing(
        "raise RuntimeError('Pallas encountered an internal verification error. Please"
        " file a bug. Error details: the op is bad.\\n see current operation: %232')\n"
    )
    assert text.startswith("RuntimeError: the op is bad.; at ")


def test_xla_callback_errors_are_reduced_to_the_exception(failing):
    text = failing(
        "raise RuntimeError('INTERNAL: CpuCallback error calling callback: Traceback'\n"
        "  ' (most recent call last):\\n  File x\\nIndexError: no such slot\\n'\n"
        "  '=== Source Location Trace: ===\\nffi.cc:170')\n"
    )
    assert text.startswith("RuntimeError: IndexError: no such slot; at ")


def test_missing_absl_is_explained(failing):
    text = failing(
        "raise ModuleNotFoundError(\"No module named 'absl'\", name='absl')\n"
    )
    assert text.endswith(
        "(jax.experimental.pallas.mosaic_gpu needs absl-py, which jax does not install;"
        " pip install absl-py)"
    )
