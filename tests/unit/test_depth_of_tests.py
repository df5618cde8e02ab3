"""What `[test]` makes of a standalone test."""

import re
import subprocess
import sys

import pytest
from made import load, plan

from kgen.emit.render import render

pytestmark = pytest.mark.without_jax

RACE = 'assert "RACE" not in capsys.readouterr().out'


def rendered(directory, text):
    return render(plan(directory, text), verified=True).test_source


def names_of(source):
    return re.findall(r"^def (test_\w+)\(", source, re.MULTILINE)


ALWAYS = [
    "test_reference_is_the_product",
    "test_refuses_shapes_it_cannot_do",
    "test_refuses_other_dtypes",
]


@pytest.mark.parametrize(
    ("depth", "tests"),
    [
        (
            "",
            [
                "test_exact_on_integers",
                "test_close_on_normal_values",
                "test_close_on_a_gpu",
            ],
        ),
        ('inputs = ["integers"]', ["test_exact_on_integers", "test_exact_on_a_gpu"]),
        ('inputs = ["normal"]', ["test_close_on_normal_values", "test_close_on_a_gpu"]),
        (
            'inputs = ["integers"]\nexact = false',
            ["test_close_on_integers", "test_close_on_a_gpu"],
        ),
    ],
)
def test_inputs_decide_what_is_tested(tmp_path, depth, tests):
    source = rendered(tmp_path, f"[test]\n{depth}\n")
    assert names_of(source) == tests + ALWAYS
    assert ("def normal(" in source) == ('inputs = ["integers"]' not in depth)
    assert ("def check_close(" in source) == ("test_close_on_a_gpu" in tests)
    assert source.count(RACE) == len(tests) - 1


@pytest.mark.parametrize(
    ("text", "reason", "tolerance"),
    [
        (
            "",
            "Rounding the result to bfloat16, and k float32 additions before that.",
            "2.0**-8 * np.abs(expected) + 2.0**-23 * np.sqrt(a.shape[1]) * size",
        ),
        (
            '[kernel]\nlayout = "nt"\n[dtypes]\na = "float32"\nb = "float32"\n'
            "[tile]\nm = 64\nn = 64\n",
            "Rounding the result to float32, and the factors to tf32 before that.",
            "2.0**-24 * np.abs(expected) + 2.0**-9 * size",
        ),
        (
            "[test]\nrtol = 0.25\n",
            "rtol = 0.25 by the spec, and k float32 additions before that.",
            "0.25 * np.abs(expected) + 2.0**-23 * np.sqrt(a.shape[1]) * size",
        ),
        (
            "[test]\natol = 1e-05\n",
            "Rounding the result to bfloat16, and atol = 1e-05 by the spec.",
            "2.0**-8 * np.abs(expected) + 1e-05",
        ),
        (
            "[test]\nrtol = 1\natol = 2\n",
            "rtol = 1.0 by the spec, and atol = 2.0 by the spec.",
            "1.0 * np.abs(expected) + 2.0",
        ),
    ],
)
def test_a_tolerance_tells_where_it_comes_from(tmp_path, text, reason, tolerance):
    source = rendered(tmp_path, text)
    assert f"    # {reason}\n    tolerance = {tolerance}\n" in source


def test_a_marker_stands_on_the_test_that_needs_a_gpu(tmp_path):
    source = rendered(tmp_path, '[test]\ngpu_marker = "h100"\n')
    assert source.count("h100") == 1
    assert (
        "@pytest.mark.h100\n"
        '@pytest.mark.skipif(not ON_HOPPER, reason="needs a Hopper GPU")\n'
        '@pytest.mark.parametrize(("m", "n", "k"), GPU_SHAPES)\n'
        "def test_close_on_a_gpu(m, n, k):\n"
    ) in source


def test_the_defaults_may_be_written_out(tmp_path):
    said = '[test]\ninputs = ["integers", "normal"]\nexact = true\n'
    assert rendered(tmp_path, said) == rendered(tmp_path, "")


@pytest.mark.parametrize(
    ("said", "alike"),
    [
        ("rtol = 0.5", True),
        ('gpu_marker = "gpu"', True),
        ('inputs = ["normal"]', True),
        ("shapes = [[128, 128, 64]]", False),
    ],
)
def test_only_shapes_are_part_of_the_module(tmp_path, said, alike):
    plain, deep = load(tmp_path, ""), load(tmp_path, f"[test]\n{said}\n")
    assert (deep.digest == plain.digest) == alike
    assert deep.test_digest != plain.test_digest
    modules = [
        render(plan(tmp_path, text), verified=True)
        for text in ("", f"[test]\n{said}\n")
    ]
    assert (modules[0].source == modules[1].source) == alike


def test_a_change_of_the_tests_template_is_none_of_the_module(tmp_path):
    templates = tmp_path / "templates"
    (templates / "partials").mkdir(parents=True)
    (templates / "test_matmul.py.jinja").write_text(
        '{% extends "kgen/test_matmul.py.jinja" %}\n'
    )
    made = plan(tmp_path, "")
    shipped, other = (
        render(made, templates=directories, verified=True)
        for directories in ((), (templates,))
    )
    assert other.source == shipped.source
    assert other.test_template_digest != shipped.test_template_digest
    assert other.test_source != shipped.test_source


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[kernel]\nlayout = "nt"\n[dtypes]\na = "float32"\nb = "float32"\n'
        "[tile]\nm = 64\nn = 64\n",
        "[test]\nrtol = 0.25\natol = 1\n",
        '[test]\ninputs = ["integers"]\n',
        '[test]\ninputs = ["integers"]\nexact = false\n',
        '[test]\ninputs = ["normal"]\natol = 1\n',
    ],
)
def test_no_name_is_unused(tmp_path, text):
    path = tmp_path / "test_it.py"
    path.write_text(rendered(tmp_path, text))
    command = ["-m", "ruff", "check", "--isolated", "--select", "F", str(path)]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
