"""Dispatch modules: what their specs may say, what is picked, where they import from."""

import dataclasses
import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest
from commands import kgen
from dispatched import HEAD, write_dispatch, write_kernels
from oldest import newest_only

from kgen import beside
from kgen.emit import provenance
from kgen.emit.placement import Placement, place
from kgen.emit.render import render
from kgen.errors import SpecError, TemplateError
from kgen.plan import dispatch_rules, make_plan
from kgen.plan.dispatch import Kernel, distance
from kgen.rules import all_rules
from kgen.spec.load import load_file

pytestmark = newest_only

ROOT = Path(__file__).parents[2]
RULES = [rule for code, rule in all_rules().items() if code.startswith("KG9")]


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def plan_of(path):
    (spec,) = load_file(path)
    return make_plan(spec)


def told(buckets, **more):
    path = write_dispatch(Path("specs"), buckets)
    write_kernels(Path("specs"), **more)
    with pytest.raises(SpecError) as error:
        plan_of(path)
    return str(error.value)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_examples_of_the_rules(rule):
    small = "[tile]\nm = 64\nn = 64\n[shapes]\n"
    write_kernels(
        Path(),
        gemm_any=small + 'edge = "any"\n',
        gemm_batched=small + "batch = true\n",
    )
    path = Path("matmul_h200.toml")
    path.write_text(rule.good)
    plan_of(path)
    path.write_text(rule.bad)
    with pytest.raises(SpecError) as error:
        plan_of(path)
    assert {problem.code for problem in error.value.problems} == {rule.code}


def test_every_rule_has_a_constant():
    constants = vars(dispatch_rules).values()
    assert all(rule in constants for rule in RULES)
    assert len(RULES) == 6


def test_an_unknown_kernel():
    assert told({"gem": [[64, 64, 64]]}) == (
        'specs/pick.toml:6: KG901 bucket.kernel = "gem" is not among the specs beside '
        "this one\n"
        "  allowed: gemm, gemm_fp16, skinny\n"
        '  hint: did you mean "gemm"?'
    )


def test_a_kernel_with_gradients():
    layer = "autodiff = true\n"
    assert told({"layer": [[128, 128, 128]]}, layer=layer) == (
        'specs/pick.toml:6: KG901 bucket.kernel = "layer" has gradients, which a dispatch '
        "module cannot pass on\n"
        "  allowed: a kernel without kernel.autodiff"
    )


def test_a_kernel_with_scales():
    scaled = (
        'layout = "nt"\n[dtypes]\na = "float8_e4m3fn"\nb = "float8_e4m3fn"\n'
        "[scales]\nblock = 128\n[schedule]\nwarp_specialized = true\n"
    )
    assert told({"scaled": [[128, 128, 128]]}, scaled=scaled) == (
        'specs/pick.toml:6: KG901 bucket.kernel = "scaled" has scales, which a dispatch '
        "module cannot pass on\n"
        "  allowed: a kernel without [scales]"
    )


def test_specs_that_cannot_be_read():
    assert told({"gem": [[64, 64, 64]]}, broken="[tile]\nm = true\n").endswith(
        "  hint: these specs cannot be read: broken.toml"
    )


def test_a_kernel_that_is_not_legal():
    assert told({"wide": [[64, 1024, 64]]}, wide="[tile]\nn = 1024\n") == (
        'specs/pick.toml:6: KG901 bucket.kernel = "wide" is not legal itself: KG102, KG401\n'
        "  hint: kgen explain specs/wide.toml"
    )


def test_a_dispatch_module_in_a_table():
    write_dispatch(Path("specs"), name="other")
    assert told({"other": [[4096, 8192, 4096]]}) == (
        'specs/pick.toml:6: KG901 bucket.kernel = "other" is no matmul but a dispatch\n'
        '  allowed: a kernel with op = "matmul"'
    )


@pytest.mark.parametrize("name", ["pick", "choose", "KERNELS", "os", "a b"])
def test_a_name_that_no_kernel_can_have(name):
    assert told({name: [[64, 64, 64]]}) == (
        f'specs/pick.toml:6: KG901 bucket.kernel = "{name}" cannot be the name of a '
        "kernel here\n"
        "  hint: it must be importable, and not a name of this module's own"
    )


def test_kernels_of_other_dtypes_and_layouts():
    buckets = {"gemm": [[128, 64, 64]], "gemm_fp16": [[64, 64, 64]], "rows": [[64] * 3]}
    nt = '[tile]\nm = 64\nn = 64\n[matrix]\nkernel.layout = ["nt"]\n'
    assert told(buckets, rows=nt).splitlines() == [
        'specs/pick.toml:10: KG902 bucket.kernel = "gemm_fp16" has dtypes.a = "float16"',
        '  allowed: "bfloat16", as that of gemm',
        "  hint: give each kind of operands a dispatch module of its own",
        'specs/pick.toml:10: KG902 bucket.kernel = "gemm_fp16" has dtypes.b = "float16"',
        '  allowed: "bfloat16", as that of gemm',
        "  hint: give each kind of operands a dispatch module of its own",
        'specs/pick.toml:10: KG902 bucket.kernel = "gemm_fp16" has dtypes.out = "float16"',
        '  allowed: "bfloat16", as that of gemm',
        "  hint: give each kind of operands a dispatch module of its own",
        'specs/pick.toml:14: KG902 bucket.kernel = "rows" has kernel.layout = "nt"',
        '  allowed: "nn", as that of gemm',
        "  hint: give each kind of operands a dispatch module of its own",
        "specs/pick.toml:15: KG904 m=64, n=64, k=64 is in a bucket of gemm_fp16 already",
        "  allowed: every size once",
        "  hint: keep it where the faster kernel is",
    ]


def test_kernels_that_take_every_size():
    ragged = '[tile]\nm = 64\nn = 64\n[shapes]\nedge = "any"\n'
    assert told({"rows": [[64, 64, 64]]}, rows=ragged) == (
        'specs/pick.toml:6: KG905 bucket.kernel = "rows" has shapes.edge = "any"\n'
        '  allowed: kernels with shapes.edge = "exact"\n'
        "  hint: call rows itself; see `kgen rule KG905`"
    )


def test_kernels_of_batches():
    batched = "[tile]\nm = 64\nn = 64\n[shapes]\nbatch = true\n"
    assert told({"many": [[64, 64, 64]]}, many=batched) == (
        'specs/pick.toml:6: KG906 bucket.kernel = "many" has shapes.batch = true\n'
        "  allowed: kernels with shapes.batch = false\n"
        "  hint: call many itself; see `kgen rule KG906`"
    )


def test_sizes_that_a_kernel_cannot_do():
    buckets = {"gemm": [[128, 64, 64], [64, 64, 64], [2**30, 64, 64]]}
    assert told(buckets).splitlines() == [
        "specs/pick.toml:7: KG903 gemm cannot do m=64, n=64, k=64",
        "  allowed: multiples of (128, 64, 64) with m at most 8388480",
        "  hint: name another kernel for this size, or leave it to the nearest",
        "specs/pick.toml:7: KG903 gemm cannot do m=1073741824, n=64, k=64",
        "  allowed: multiples of (128, 64, 64) with m at most 8388480",
        "  hint: name another kernel for this size, or leave it to the nearest",
    ]


def test_a_variant_of_a_family_may_be_named():
    path = write_dispatch(Path("specs"), {"n_96": [[128, 96, 64]]})
    family = HEAD.format(name="n_{tile.n}", op="matmul")
    family += "[tile]\nm = 64\n[matrix]\ntile.n = [64, 96]\n"
    Path("specs/family.toml").write_text(family)
    assert plan_of(path).kernels[0].units == (64, 96, 64)


def test_clusters_and_parts_of_k_count():
    path = write_dispatch(Path("specs"), {"parts": [[256, 128, 128]]})
    tables = "[schedule]\nwarp_specialized = true\nsplit_k = 2\n[cluster]\nm = 2\n"
    write_kernels(Path("specs"), parts=tables)
    (kernel,) = plan_of(path).kernels
    assert kernel == Kernel(name="parts", units=(256, 128, 128), max_m=65_535 * 128)


def test_the_nearest_that_can_do_it():
    plan = plan_of(write_dispatch(Path("specs")))
    names = {
        (4096, 8192, 4096): "gemm",
        (64, 8192, 8192): "skinny",
        (128, 8192, 8192): "skinny",
        (4096 + 64, 8192, 4096): "skinny",  # gemm's rows are multiples of 128.
        (2048, 8192, 4096): "gemm",
        (8_388_608, 64, 64): None,  # Too many rows for either.
        (64, 64, 32): None,
    }
    found = {shape: plan.choose(shape) for shape in names}
    assert {s: b.kernel if b else None for s, b in found.items()} == names


def test_distance_is_in_doublings():
    assert distance((64, 128, 256), (128, 64, 1024)) == 4.0


def test_what_the_kernel_beside_takes_is_part_of_the_digest():
    path = write_dispatch(Path("specs"))
    before = plan_of(path)
    write_kernels(Path("specs"), gemm="[tile]\nm = 128\nn = 64\n[store]\nslots = 1\n")
    assert plan_of(path).spec_digest == before.spec_digest
    write_kernels(Path("specs"), gemm="[tile]\nm = 64\nn = 64\n")
    after = plan_of(path)
    assert after.spec_digest != before.spec_digest
    assert after.test_digest != before.test_digest


def test_a_shipped_module_picks_what_its_plan_says(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "generated")
    module = importlib.import_module("matmul_h200")
    plan = plan_of(ROOT / "specs" / "h200" / "matmul_h200.toml")
    rng = np.random.default_rng(1)
    for sizes in (2 ** rng.integers(4, 13, (300, 3)) * rng.choice([1, 3], 3)).tolist():
        shape = tuple(sizes)
        bucket = plan.choose(shape)
        if bucket is None:
            with pytest.raises(ValueError, match="no kernel can do m="):
                module.choose(*shape)
        else:
            choice = module.choose(*shape)
            assert (choice.kernel, choice.bucket) == (bucket.kernel, bucket.shape)
            assert choice.exact == (bucket.shape == shape)


@pytest.fixture
def module():
    return render(plan_of(write_dispatch(Path("specs"))), verified=False)


@pytest.mark.parametrize(
    ("placement", "line", "package"),
    [
        (Placement(), "import gemm\nimport jax\nimport skinny\n", ""),
        (
            Placement(package="my.kernels"),
            "import jax\n\nfrom my.kernels import gemm, skinny\n",
            "my.kernels",
        ),
        (
            Placement(package="my.kernels", relative_imports=True),
            "import jax\n\nfrom . import gemm, skinny\n",
            beside.RELATIVE,
        ),
    ],
)
def test_where_a_module_imports_its_kernels_from(module, placement, line, package):
    text = place(module, placement).source
    assert f"from collections.abc import Callable\n\n{line}\n\n@dataclasses" in text
    assert provenance.read(text).intact
    assert placement.package_of_modules == package
    kernels = Path("kernels")
    kernels.mkdir()
    for name in ("gemm", "skinny"):
        (kernels / f"{name}.py").write_text(f"# {name}")
    found = beside.find(text, kernels)
    assert found.texts == {"gemm": "# gemm", "skinny": "# skinny"}
    assert found.package == package


def test_imports_that_cannot_be_moved(module):
    text = module.source.replace("import gemm\n", "import gemm as g\n")
    with pytest.raises(TemplateError) as error:
        Placement(package="my").module(text, "pick", module.imports)
    assert str(error.value) == (
        "the module pick does not import what is beside it, each on a line"
        " `import NAME` among its imports: gemm, skinny"
    )


def test_what_is_not_beside():
    Path("gemm.py").write_text("")
    text = "import os\nimport jax\nfrom far.away import gemm\nfrom .deep import gemm\n"
    assert beside.find(text, Path().absolute()) == beside.Found(texts={}, package="")


def test_a_vendored_module_brings_its_kernels_along():
    path = write_dispatch(Path("specs"))
    Path("kgen.toml").write_text("[vendor]\nspecs = true\n")
    assert kgen("vendor", "mine", path, "--no-verify", "-j", 1).exit_code == 0
    names = sorted(p.relative_to("mine").as_posix() for p in Path("mine").rglob("*.*"))
    assert names == [
        "gemm.py",
        "kgen.lock",
        "pick.py",
        "skinny.py",
        "specs/gemm.toml",
        "specs/pick.toml",
        "specs/skinny.toml",
        "tests/test_gemm.py",
        "tests/test_pick.py",
        "tests/test_skinny.py",
    ]
    assert kgen("vendor", "mine", "--check", "--no-verify", "-j", 1).exit_code == 0
    Path("mine/skinny.py").unlink()
    check = kgen("vendor", "mine", path, "--check", "--no-verify", "-j", 1)
    assert (check.exit_code, "missing mine/skinny.py" in check.stderr) == (1, True)


def test_its_kernels_are_not_orphans_where_it_is_vendored_alone():
    path = write_dispatch(Path("specs"))
    for _ in range(2):
        assert (
            kgen("vendor", "mine", path, "--update", "--no-verify", "-j", 1).exit_code
            == 0
        )
        assert Path("mine/gemm.py").exists()
    assert not Path("mine/gemm_fp16.py").exists()


def test_explain_tells_what_is_picked():
    path = write_dispatch(Path("specs"))
    outcome = kgen("explain", path, "--shape", "128,8192,8192")
    lines = [line.split(maxsplit=1) for line in outcome.stdout.splitlines()]
    assert lines[-4:] == [
        ["choice.shape", "(128, 8192, 8192)"],
        ["choice.kernel", "skinny"],
        ["choice.bucket", "(64, 8192, 8192)"],
        ["choice.exact", "False"],
    ]
    assert "choice" not in kgen("explain", path).stdout


@pytest.mark.parametrize("command", ["explain", "verify"])
def test_a_shape_that_no_kernel_can_do(command):
    path = write_dispatch(Path("specs"))
    outcome = kgen(command, path, "--shape", "65,64,64")
    assert outcome.exit_code == 2
    assert outcome.stderr.splitlines()[1:2] == [
        "  allowed: multiples of (64, 64, 64) with m at most 4194240 or of"
        " (128, 64, 64) with m at most 8388480"
    ]


def test_diff_tells_which_sizes_moved():
    a, b = (write_dispatch(Path(name)) for name in "ab")
    write_dispatch(Path("b"), {"gemm": [[4096, 8192, 4096]], "skinny": [[64] * 3]})
    outcome = kgen("diff", a, b)
    assert outcome.exit_code == 1
    assert "buckets.64x64x64.kernel: none -> skinny" in outcome.stdout
    assert kgen("diff", a, a).exit_code == 0


def test_list_has_a_line_for_it():
    write_dispatch(Path("specs"))
    lines = kgen("list", "specs").stdout.splitlines()
    (line,) = [line.split() for line in lines if " pick " in line]
    assert line[:2] + line[-4:] == [
        "pick",
        "dispatch",
        "-",
        "-",
        "-",
        "specs/pick.toml",
    ]


def test_the_least_demanding_can_do_all_that_any_can():
    units = [(64, 64, 64), (128, 64, 64), (16, 64, 128), (64, 128, 64)]
    plan = plan_of(write_dispatch(Path("specs")))
    kernels = [Kernel(name=str(u), units=u, max_m=None) for u in units]
    kept = {
        tuple(k.units for k in _with(plan, order).least_demanding())
        for order in itertools.permutations(kernels)
    }
    assert kept == {((16, 64, 128), (64, 64, 64))}


def _with(plan, kernels):
    return dataclasses.replace(plan, kernels=tuple(kernels))
