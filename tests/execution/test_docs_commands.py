"""Every command of the guides is executed, and prints what the guide shows.

A guide is a script. Its blocks, in order:

- `sh`: run by one `bash -e` in an empty directory.
- `text`: lines that the block before it printed, in this order; times may differ.
- any block that begins with a comment of a path, such as `# specs/gemm.toml`: that file.
- every other block is an illustration, and is listed in NOT_EXECUTED.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from oldest import IS_OLDEST_JAX, newest_only

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDES = ["tutorial.md", *(f"how-to/{p.name}" for p in (DOCS / "how-to").glob("*.md"))]
NOT_EXECUTED = {
    "how-to/benchmarking.md": [  # Needs a GPU.
        "$ kgen bench generated/bf16_128x256_ws.py --shape 4096,8192,4096 --shape 512,4096,4096 \\",
        "$ kgen bench --compare old.json new.json",
    ],
    "how-to/tuning.md": [  # So does this.
        "$ kgen tune specs/gemm.toml --shape 4096,8192,4096 --write --report gemm.html",
        "$ kgen tune --merge monday.jsonl tuesday.jsonl -o both.jsonl",
    ],
    "how-to/epilogues.md": ["from mlp import matmul"],  # Needs operands.
    "how-to/batches.md": ["from heads import matmul"],  # So does this.
    "how-to/gradients.md": [  # So does this.
        "from layer import matmul",
        "[[epilogue]]",
        "from layer import matmul",
    ],
    "how-to/jax.md": ["import jax", "def part(a, b):"],  # And operands or a GPU.
    "how-to/torch.md": ["import torch"],  # Needs PyTorch and a GPU.
    "how-to/glu.md": ["from mlp_glu import glu"],  # So does this.
    "tutorial.md": ["$ git clone KGEN_URL kgen"],  # Needs a network.
    "how-to/pre-commit.md": ["repos:"],  # So does pre-commit for another repository.
    "how-to/vendoring.md": ["[tool.pytest.ini_options]"],  # Not for relative imports.
}
WORKFLOW = ".github/workflows/kernels.yml"  # Is written, but only GitHub can run it.
# `python -m pytest` of a guide takes only these tests, for the time: the others of a
# rendered module are run elsewhere.
FEW_TESTS = "-p no:cacheprovider -k refuses"

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?:#|\{#) ([\w./-]+\.\w+)(?: #\})?\n")
TIME = re.compile(r" \d+\.\d s|: remembered")
MARK = "-- end of block"


def blocks(guide):
    """The language and the text of every block of a guide."""
    return BLOCK.findall((DOCS / guide).read_text("utf-8"))


def is_executed(language, text):
    return language in ("sh", "text") or PATH.match(text) is not None


def script(guide):
    """A guide as a script, and what each of its blocks of commands shows."""
    lines, shown = ["exec 2>&1"], []
    for language, text in filter(lambda block: is_executed(*block), blocks(guide)):
        if language == "sh":
            lines += [text, f"echo {shlex.quote(MARK)}"]
            shown.append([])
        elif language == "text":
            shown[-1] += text.splitlines()
        else:
            path = shlex.quote(PATH.match(text)[1])
            lines += [f"mkdir -p $(dirname {path})", f"cat > {path} <<'END_OF_FILE'"]
            lines += [f"{text}END_OF_FILE"]
    return "\n".join(lines), shown


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """`kgen` is this checkout's, `python` this one; git and pre-commit know nobody."""
    home = tmp_path_factory.mktemp("home")
    # Workers of xdist have directories side by side, and remember proofs together.
    several = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if several else base) / "cache-of-guides"
    program = home / "bin" / "kgen"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}:$PYTHONPATH" exec "{sys.executable}" -m kgen "$@"\n'
    )
    program.chmod(0o755)
    places = (program.parent, Path(sys.executable).parent, os.environ["PATH"])
    kept = ("TMPDIR", "LANG", "LD_LIBRARY_PATH")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "PATH": os.pathsep.join(map(str, places)),
        "HOME": str(home),
        "KGEN_CACHE_DIR": str(cache),
        "JAX_PLATFORMS": "cpu",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": FEW_TESTS,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "me",
        "GIT_AUTHOR_EMAIL": "me@example.org",
        "GIT_COMMITTER_NAME": "me",
        "GIT_COMMITTER_EMAIL": "me@example.org",
    }


def run(commands, here, environment):
    """What the commands print, which must succeed."""
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_shown(shown, printed):
    """Asserts that lines were printed in this order."""
    rest = iter([TIME.sub("", line).strip() for line in printed.splitlines()])
    for line in shown:
        assert TIME.sub("", line).strip() in rest, f"{line!r} is not in:\n{printed}"


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_does_what_it_says(guide, tmp_path, environment):
    if IS_OLDEST_JAX and guide != "tutorial.md":
        pytest.skip("with the oldest JAX, the tutorial only")
    commands, shown = script(guide)
    printed = run(commands, tmp_path, environment).split(f"{MARK}\n")
    assert len(printed) == len(shown) + 1
    for lines, output in zip(shown, printed, strict=False):
        assert_shown(lines, output)


@pytest.mark.parametrize("guide", GUIDES)
def test_what_is_not_executed_is_known(guide):
    first_lines = [
        text.splitlines()[0]
        for language, text in blocks(guide)
        if not is_executed(language, text)
    ]
    assert first_lines == NOT_EXECUTED.get(guide, [])


def test_no_block_is_overlooked():
    for guide in GUIDES:
        fences = re.findall(r"^ *```", (DOCS / guide).read_text("utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks(guide)), guide


def test_an_output_that_is_wrong_is_noticed():
    assert_shown(["b (in 1.5 s)"], "a\nb (in 20.1 s)\n")
    for shown in (["b"], ["c", "a"]):
        with pytest.raises(AssertionError, match="is not in"):
            assert_shown(shown, "a\nbb\nc\n")


def test_the_inputs_of_the_action_are_all_told():
    (workflow,) = (text for _, text in blocks("how-to/action.md") if WORKFLOW in text)
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    inputs = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["inputs"]
    assert set(job["steps"][-1]["with"]) <= set(inputs)
    page = (DOCS / "how-to" / "action.md").read_text("utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == list(inputs)


def test_the_local_hooks_are_those_of_the_manifest():
    _, config = next(b for b in blocks("how-to/pre-commit.md") if "repo: local" in b[1])
    shown = yaml.safe_load(config)["repos"][0]["hooks"]
    shipped = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    for hook, original in zip(shown, shipped, strict=True):
        assert set(hook) == set(original) - {"description"}
        for key in set(hook) - {"language", "files"}:
            assert hook[key] == original[key]


@newest_only
def test_the_page_on_operations_does_what_it_says(tmp_path, environment):
    """Its commands need the files of two pages, and the example to install."""
    pytest.importorskip("pip", reason="builds a package with pip")
    pytest.importorskip("hatchling", reason="builds a package with hatchling")
    page = "plugins.md"
    override, install = (text for language, text in blocks(page) if language == "sh")
    ours = tmp_path / "ours"
    files = [*blocks(page), *blocks("tutorial.md")]
    named = [(path[1], text) for _, text in files if (path := PATH.match(text))]
    for name, text in named:
        (ours / name).parent.mkdir(parents=True, exist_ok=True)
        (ours / name).write_text(text)
    run(override, ours, environment)
    assert "def is_supported(" in (ours / "generated" / "gemm.py").read_text()

    example = tmp_path / "example"
    shutil.copytree(DOCS / "example_plugin", example)
    site = str(tmp_path / "site")
    # pip reads the second option the wrong way round: 0 is "no isolation".
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_TARGET": site}
    run(install, example, {**environment, **offline, "PYTHONPATH": site})
    assert (example / "generated" / "halve.py").is_file()
