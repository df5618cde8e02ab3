"""Operations of plug-ins: how they are found, and what is said of broken ones."""

import sys
from pathlib import Path

import pytest
from commands import kgen

from kgen import operations
from kgen.verify.compare import BadReferenceError
from kgen.verify.reference import INTEGERS, OPERATIONS
from kgen.verify.request import OperandCase, Request

SPEC = '[kernel]\nname = "one"\nop = "{op}"\n'


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "site")
    operations.get.cache_clear()
    yield tmp_path
    operations.get.cache_clear()
    for name in [name for name in sys.modules if name.startswith("plug_")]:
        del sys.modules[name]


def install(name, text, points=None):
    """Installs a distribution whose only module is `plug_NAME`."""
    site = Path("site")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"plug_{name}.py").write_text(text, "utf-8")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    )
    lines = points or f"{name} = plug_{name}:OPERATION\n"
    (info / "entry_points.txt").write_text(f"[kgen.operations]\n{lines}")


def spec(op, name="one.toml"):
    Path("specs").mkdir(exist_ok=True)
    path = Path("specs", name)
    path.write_text(SPEC.replace("{op}", op))
    return path


HEAD = """
from pathlib import Path
from kgen.operations import Operation
from kgen.spec.model import AnySpec
TEMPLATES = Path(__file__).parent / "templates"
def make(name, **more):
    fields = dict(name=name, spec=AnySpec, plan=None, view=None, templates=TEMPLATES,
                  request=None)
    return Operation(**(fields | more))
"""


def templates(op):
    directory = Path("site", "templates")
    directory.mkdir(parents=True, exist_ok=True)
    for name in (f"{op}.py.jinja", f"test_{op}.py.jinja"):
        (directory / name).write_text("", "utf-8")


BROKEN = {
    "import": ("import nothing_like_this\n", "ModuleNotFoundError: No module named"),
    "attribute": (
        "",
        "AttributeError: module 'plug_fold' has no attribute 'OPERATION'",
    ),
    "syntax": ("x = (\n", "SyntaxError: '(' was never closed"),
    "exit": ("raise RuntimeError('no GPU')\n", "RuntimeError: no GPU"),
    "exit code": ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
    "lines": ("raise RuntimeError('no\\n  GPU\\n')\n", "RuntimeError: no GPU"),
    "kind": ("OPERATION = {}\n", "it is no kgen.operations.Operation but a dict"),
    "name": (HEAD + "OPERATION = make('hold')\n", "it calls itself 'hold'"),
    "model": (
        HEAD + "OPERATION = make('fold', spec=dict)\n",
        "its spec is no subclass of kgen.spec.model.AnySpec",
    ),
    "templates": (HEAD + "OPERATION = make('fold')\n", "the template "),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_plug_in_is_told_by_its_distribution(fault):
    text, told = BROKEN[fault]
    install("fold", text)
    spec("fold")
    outcome = kgen("render", "--no-verify")
    first, *rest = outcome.stderr.splitlines()
    assert outcome.exit_code == 3
    assert first.startswith(
        f"specs/one.toml:3: KG005 the operation fold of fold 1.0 cannot be used: {told}"
    )
    assert rest == [
        "  hint: its entry point is plug_fold:OPERATION",
        "Found 1 problem.",
    ]


def test_a_broken_plug_in_does_not_disturb_other_specs():
    install("fold", "import nothing_like_this\n")
    spec("matmul")
    assert kgen("render", "--no-verify").exit_code == 0
    assert "plug_fold" not in sys.modules


def test_an_operation_that_nobody_brings():
    install("fold", "")
    spec("folds")
    outcome = kgen("render", "--no-verify")
    assert (outcome.exit_code, outcome.stderr) == (
        3,
        'specs/one.toml:3: KG005 kernel.op = "folds" is not allowed\n'
        '  allowed: "matmul", "glu", "dispatch" or "fold"\n'
        '  hint: did you mean "fold"?\n'
        "Found 1 problem.\n",
    )


def test_two_packages_with_one_operation():
    install("fold", "")
    install("bend", "", "fold = plug_bend:OPERATION\n")
    spec("fold")
    assert kgen("render", "--no-verify").stderr.splitlines()[0] == (
        "specs/one.toml:3: KG005 the operation fold is brought by bend 1.0 and fold 1.0:"
        " keep one of them"
    )


def test_kgens_own_operations_stay_its_own():
    install("bend", "import nothing_like_this\n", "matmul = plug_bend:OPERATION\n")
    assert operations.names() == ("matmul", "glu", "dispatch")
    spec("matmul")
    assert kgen("render", "--no-verify").exit_code == 0


def test_a_planner_that_fails():
    text = "def plan(source):\n    raise ZeroDivisionError('m')\n"
    install("fold", HEAD + text + "OPERATION = make('fold', plan=plan)\n")
    templates("fold")
    spec("fold")
    assert kgen("render", "--no-verify").stderr.splitlines()[0] == (
        "specs/one.toml:3: KG005 plan of the operation fold, which fold 1.0 brings, "
        "fails: ZeroDivisionError: m"
    )


def test_a_digest_tells_one_reference_from_another():
    text = HEAD + "def reference(x):\n    return x\n"
    install("fold", text + "OPERATION = make('fold', reference=reference)\n")
    templates("fold")
    operation = operations.get("fold")
    before = operations.sources_digest(operation)
    Path("site", "another.py").write_text("")
    assert operations.sources_digest(operation) == before
    with Path("site", "plug_fold.py").open("a") as file:
        file.write("# Changed.\n")
    assert operations.sources_digest(operation) != before


def asked(reference, parameters="{}"):
    return Request(
        name="one",
        source="",
        function="fold",
        op="function",
        arch="sm_90a",
        cases=(OperandCase(operands=("float32[2,3]",)),),
        reference=reference,
        parameters=parameters,
    )


def drawn(request):
    return OPERATIONS["function"].draw(request, request.cases[0], INTEGERS)


def test_a_request_names_the_functions_of_its_module():
    assert asked("right").functions == ("fold", "right")
    assert asked("right").operation == ""
    assert asked("operation:fold").functions == ("fold",)
    assert asked("operation:fold").operation == "fold"
    assert asked("").functions == ("fold",)


def test_the_reference_of_a_plug_in_computes_what_is_right():
    text = HEAD + "def reference(x, *, by):\n    return by * x\n"
    install("fold", text + "OPERATION = make('fold', reference=reference)\n")
    templates("fold")
    made = drawn(asked("operation:fold", '{"by": 3}'))
    assert (made.expected == 3 * made.inputs[0]).all()
    assert (made.reduction, made.exact) == (1, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("OPERATION = make('fold')\n", "the operation fold has no reference"),
        (
            "OPERATION = make('fold', reference=lambda x: x / [])\n",
            "the reference of the operation fold fails: ValueError",
        ),
        ("raise OSError\n", "the operation fold of fold 1.0 cannot be used: OSError"),
    ],
)
def test_a_reference_that_cannot_be_used(text, told):
    install("fold", HEAD + text)
    templates("fold")
    with pytest.raises(BadReferenceError, match=told):
        drawn(asked("operation:fold"))


def test_a_reference_that_the_worker_does_not_find():
    with pytest.raises(BadReferenceError, match="no package brings the operation fold"):
        drawn(asked("operation:fold"))
