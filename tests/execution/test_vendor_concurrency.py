"""Runs of `kgen vendor --update` at once, and runs that are killed at any moment.

KGEN_KILL_ROUNDS=2000 makes the second test longer; without it, it takes some 15 s.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from oldest import newest_only

pytestmark = newest_only

ROOT = Path(__file__).resolve().parents[2]
SPEC = '[kernel]\nname = "{name}"\nop = "matmul"\n[tile]\nm = 64\nn = {n}\n'
# What is rendered does not matter here, and should not take long.
TEMPLATE = """\"\"\"{{{{ doc }}}}\"\"\"

{{% include "partials/provenance.jinja" %}}

{body}
"""
DEST = Path("dest")
UPDATE = ("vendor", "--update", "--no-verify", "-j", "1", str(DEST))
SECONDS = 10


def write_specs(directory, n, names):
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / f"{name}.toml").write_text(SPEC.format(name=name, n=n))


def tree(directory):
    """Every file below `directory` with its bytes, hidden ones too."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def start(*arguments):
    program = "from kgen.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def end(process):
    stdout, stderr = process.communicate(timeout=120)
    return process.returncode, stdout + stderr


def kgen(*arguments):
    code, told = end(start(*arguments))
    assert code == 0, told
    return told


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two versions of specs, and what each yields; copies of specs are wanted."""
    monkeypatch.chdir(tmp_path)
    Path("kgen.toml").write_text(
        'templates = ["templates"]\n[vendor]\nspecs = true\nrelative_imports = true\n'
    )
    templates = Path("templates")
    templates.mkdir()
    for name, body in (
        ("matmul", "TILE_N = {{ tile_n }}"),
        ("test_matmul", "import {{ name }} as module"),
    ):
        text = TEMPLATE.format(body=body)
        (templates / f"{name}.py.jinja").write_text(text)
    write_specs(Path("old"), 64, ["a", "b", "gone"])
    write_specs(Path("new"), 128, ["a", "b", "come"])
    for version in ("old", "new"):
        arguments = [*UPDATE[:-1], f"alone-{version}", version]
        kgen(*arguments)
    return tmp_path


def test_eight_at_once(here):
    kgen(*UPDATE, "old")
    runs = [start(*UPDATE, "new") for _ in range(8)]
    results = [end(run) for run in runs]
    assert [code for code, _ in results] == [0] * 8, results
    assert tree(DEST) == tree(Path("alone-new"))
    # One did the work; the others found it done.
    assert sum("3 modules rendered" in told for _, told in results) == 1
    assert sum("3 removed" in told for _, told in results) == 1


def test_eight_of_two_versions_at_once(here):
    runs = [start(*UPDATE, version) for version in ("old", "new") * 4]
    results = [end(run) for run in runs]
    assert [code for code, _ in results] == [0] * 8, results
    assert tree(DEST) in (tree(Path("alone-old")), tree(Path("alone-new")))


# Forks runs from one process that has imported everything, and kills each. All that is
# checked is done here, too: hundreds of rounds would take long otherwise.
KILLER = """
import json, os, random, signal, sys, time
from pathlib import Path

from kgen.cli import cli

def tree(directory):
    return {p.relative_to(directory).as_posix(): p.read_bytes()
            for p in Path(directory).rglob("*") if p.is_file()}

def run(*arguments):
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        code = 99
        try:
            code = cli.main(list(arguments), prog_name="kgen", standalone_mode=False)
        finally:
            os._exit(code or 0)
    return child

def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

rounds, seconds, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
update = json.loads(sys.argv[4])
random.seed(seed)
good = {version: tree(f"alone-{version}") for version in ("old", "new")}
parts = {}
for version in good.values():
    for name, text in version.items():
        parts.setdefault(name, set()).add(text)
# Here, for the sake of all that is imported on the way.
assert cli.main([*update, "new"], prog_name="kgen", standalone_mode=False) == 0
begin = time.monotonic()
assert wait(run(*update, "old")) == 0
whole = time.monotonic() - begin
counts = {"rounds": 0, "killed": 0, "changed": 0, "between": 0}
while counts["rounds"] < rounds and time.monotonic() - begin < seconds:
    version = ("new", "old")[counts["rounds"] % 2]
    counts["rounds"] += 1
    before = tree("dest")
    for _ in range(random.randint(1, 3)):
        child = run(*update, version)
        time.sleep(random.uniform(0, 1.1 * whole))
        os.kill(child, signal.SIGKILL)
        counts["killed"] += wait(child) == -signal.SIGKILL
    found = tree("dest")
    left = {name: text for name, text in found.items() if "/.kgen-" not in f"/{name}"}
    for name, text in left.items():
        # The lock names files: of these it may tell a mixture, but no half.
        if name != "kgen.lock":
            assert text in parts[name], (seed, counts, name)
    counts["changed"] += found != before
    counts["between"] += left not in (before, good[version])
    begin_of_run = time.monotonic()
    assert wait(run(*update, version)) == 0, (seed, counts, Path("stderr").read_text())
    whole = 0.9 * whole + 0.1 * (time.monotonic() - begin_of_run)
    assert tree("dest") == good[version], (seed, counts)
print(json.dumps(counts))
"""


def test_killed_at_any_moment(here):
    given = os.environ.get("KGEN_KILL_ROUNDS")
    rounds, seconds = (int(given), 3600) if given else (10_000, SECONDS)
    seed = int.from_bytes(os.urandom(4))
    arguments = [rounds, seconds, seed, json.dumps(UPDATE)]
    done = subprocess.run(
        [sys.executable, "-c", KILLER, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (seed, done.stdout, done.stderr)
    counts = json.loads(done.stdout)
    print(counts)
    # The kills came at moments that matter.
    assert counts["killed"] > 0
    assert counts["changed"] > 0
