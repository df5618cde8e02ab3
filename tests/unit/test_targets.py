"""What `kgen verify` is asked to verify."""

from pathlib import Path

import pytest
from oldest import newest_only

from kgen.errors import FileError, SpecError, UsageError
from kgen.targets import find_targets
from kgen.targets.asked import Asked
from kgen.verify.request import OperandCase, RequestCase
from kgen.verify.table import Table

pytestmark = newest_only

ROOT = Path(__file__).parents[2]
SPEC = '[kernel]\nname = "small"\nop = "matmul"\n[tile]\nm = 64\nn = 128\n'
FUNCTIONS = "def reference(a): return a\ndef right(a): return a\ndef f(a): return a\n"


def track(futures, doing):
    return futures


def targets(*names, **asked):
    return list(find_targets([str(name) for name in names], Asked(**asked), track))


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my-kernels.py"
    path.write_text(FUNCTIONS)
    return path


def test_a_spec_stands_for_its_module_with_the_plans_smem(spec):
    (target,) = targets(spec)
    assert target.label == "small.toml (small)"
    assert "DELAY_RELEASE = 1" in target.request.source
    assert all(case.smem_bytes for case in target.request.cases)
    assert target.request.path == ""


def test_a_place_in_a_module_is_told_in_the_one_that_lies_there(spec, tmp_path):
    (target,) = targets(spec, out=tmp_path / "out")
    assert target.path == str(spec)
    module = tmp_path / "small.py"
    module.write_text(target.request.source)
    (target,) = targets(spec, out=tmp_path)
    assert target.path == str(module)
    module.write_text(f"\n{target.request.source}")
    (target,) = targets(spec, out=tmp_path)
    assert target.path == str(spec)


def test_a_function_and_a_module_are_told_in_their_file(file):
    (target,) = targets(f"{file}:f", shapes=("f16[64]",))
    assert target.path == str(file)
    module = ROOT / "generated" / "bf16_64x64.py"
    (target,) = targets(module)
    assert target.path == str(module)


def test_shapes_take_the_place_of_the_specs_own(spec):
    (target,) = targets(spec, shapes=("64,128,64", "128,256,512"))
    cases = target.request.cases
    assert [(c.m, c.n, c.k) for c in cases] == [(64, 128, 64), (128, 256, 512)]
    # The ring is shorter than planned with fewer steps than slots.
    assert cases[0].smem_bytes is None
    assert cases[1].smem_bytes > 0


def test_a_module_is_asked_about_as_it_is(tmp_path):
    text = (ROOT / "generated" / "bf16_nt_128x96.py").read_text("utf-8")
    path = tmp_path / "mine.py"
    path.write_text(text + "# edited\n", "utf-8")
    (target,) = targets(path)
    request = target.request
    assert (target.label, request.source) == (str(path), text + "# edited\n")
    assert (request.name, request.function, request.layout) == ("mine", "matmul", "nt")
    assert (request.operand_dtype, request.out_dtype) == ("bfloat16", "float32")
    sizes = [(case.m, case.n, case.k) for case in request.cases]
    assert all(m % 128 == n % 96 == k % 64 == 0 for m, n, k in sizes)
    assert sorted(m // 128 for m, _, _ in sizes[:4]) == [1, 2, 3, 7]
    assert all(case.smem_bytes is None for case in request.cases)


def test_a_module_for_every_size_is_asked_about_the_edges_of_its_tile():
    (target,) = targets(ROOT / "generated" / "bf16_128x256_any.py")
    sizes = [(case.m, case.n, case.k, case.num_sms) for case in target.request.cases]
    assert sizes == [
        (1, 1, 1, 1),
        (127, 257, 193, 1),
        (129, 255, 63, 2),
        (128, 1280, 64, 1),
        (3, 519, 509, 2),
        (263, 131, 67, 2),
    ]


def test_a_module_says_itself_which_rules_it_may_break(tmp_path):
    text = (ROOT / "generated" / "fp16_128x128.py").read_text("utf-8")
    allowed = text.replace("static, lower", "static (KG402, KG405 allowed), lower")
    assert allowed != text
    path = tmp_path / "mine.py"
    for source, rules in ((text, ()), (allowed, ("KG402", "KG405"))):
        path.write_text(source, "utf-8")
        (target,) = targets(path)
        assert target.request.allow == rules


def test_a_directory_without_specs_stands_for_its_modules():
    found = targets(ROOT / "generated")
    modules = sorted((ROOT / "generated").glob("*.py"))
    assert [target.label for target in found] == [str(path) for path in modules]


def test_targets_stay_in_their_order(spec, file):
    module = ROOT / "generated" / "fp16_128x128.py"
    shape = {"shapes": ("128,128,64",)}
    labels = [each.label for each in targets(module, spec, f"{file}:f", spec, **shape)]
    assert labels == [
        str(module),
        "small.toml (small)",
        f"{file}:f",
        "small.toml (small)",
    ]


def test_a_function_with_operands(file):
    shapes = ("f16[64,128]", "f16[128,64]")
    (target,) = targets(f"{file}:f", shapes=shapes)
    request = target.request
    assert (request.op, request.function, request.reference) == (
        "function",
        "f",
        "reference",
    )
    assert (request.name, request.path) == ("my_kernels", str(file.absolute()))
    assert request.cases == (
        OperandCase(operands=("float16[64,128]",)),
        OperandCase(operands=("float16[128,64]",)),
    )
    (target,) = targets(f"{file}:f", shapes=shapes, reference="right")
    assert target.request.reference == "right"


def test_a_function_with_sizes_is_a_matmul(file):
    (target,) = targets(f"{file}:f", shapes=("64,128,256",), dtype="bfloat16")
    request = target.request
    assert (request.op, request.operand_dtype, request.out_dtype) == (
        "matmul",
        "bfloat16",
        "",
    )
    assert request.cases == (RequestCase(m=64, n=128, k=256),)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({}, "--shape is missing for"),
        ({"shapes": ("1,2,3",), "dtype": "int8"}, "--dtype must be one of float16, "),
        ({"shapes": ("1,2,3", "f16[2]")}, "go neither with operands nor with"),
        ({"shapes": ("1,2,3",), "reference": "right"}, "go neither with operands nor"),
        (
            {"shapes": ("f16[2]",), "reference": "wrong"},
            "has no function wrong\n  allow",
        ),
        ({"shapes": ("f16",)}, "neither three sizes nor a list"),
        ({"shapes": ("64,64,64", "64,0,64")}, "'64,0,64' is a product of nothing"),
    ],
)
def test_what_a_function_cannot_be_asked(file, asked, reason):
    with pytest.raises(UsageError, match=reason):
        targets(f"{file}:f", **asked)


@pytest.mark.parametrize("name", ["g", ""])
def test_a_function_that_is_not_there(file, name):
    with pytest.raises(UsageError, match="allowed: reference, right, f"):
        targets(f"{file}:{name}", shapes=("f16[2]",))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("100,128,64", "m = 100 is not a positive multiple of 64, as small needs it"),
        ("64,128,0", "k = 0 is not a positive multiple of 64"),
        ("f16[64,64]", "is not three sizes, as a matmul has them"),
    ],
)
def test_sizes_that_a_spec_cannot_do(spec, shape, reason):
    with pytest.raises(UsageError, match=reason):
        targets(spec, shapes=(shape,))


BATCHED = ROOT / "generated" / "bf16_128x256_batched.py"


@pytest.mark.parametrize(
    "shape",
    [
        "64xx512,512,512",
        "-2x512,512,512",
        "x512,512,512",
        "2,3x512,512,512",
        "9999999999999x512,512,512",
        "x",
        "512,512,512x2",
    ],
)
@pytest.mark.parametrize("path", [BATCHED, ROOT / "generated" / "bf16_glu_silu.py"])
def test_what_is_no_batch_is_not_left_out(shape, path):
    with pytest.raises(UsageError) as error:
        targets(path, shapes=(shape,))
    first, allowed = str(error.value).splitlines()[:2]
    assert first == f"--shape '{shape}' is not three sizes, as a matmul has them"
    batch = ", or a batch of them such as 64x256,512,1024" * (path == BATCHED)
    assert allowed == f"  allowed: M,N,K such as 256,512,1024{batch}"


@pytest.mark.parametrize("batch", ["0", "65536x65536"])
def test_a_batch_has_some_matrices_and_no_more_than_can_be_counted(batch):
    with pytest.raises(UsageError, match=r"one matrix or more, 2,147,483,647 at most"):
        targets(BATCHED, shapes=(f"{batch}x512,512,512",))


def test_a_module_for_every_size_takes_zero():
    (target,) = targets(ROOT / "generated" / "bf16_128x256_any.py", shapes=("64,72,0",))
    (case,) = target.request.cases
    assert (case.m, case.n, case.k, case.kernels) == (64, 72, 0, 0)


def test_sizes_that_no_kernel_of_a_module_can_do():
    module = ROOT / "generated" / "matmul_h200.py"
    with pytest.raises(UsageError) as error:
        targets(module, shapes=("64,72,64",))
    assert str(error.value) == (
        f"--shape '64,72,64': no kernel of {module} can do it\n"
        "  allowed: multiples of (16, 64, 256) with m at most 1048560 or of (64, 128, 64)"
    )


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("edges", "bf16_128x256_any"),
        ("autodiff", "bf16_128x256_autodiff"),
        ("batch", "fp16_batched_any"),
        ("h200", "matmul_h200"),
    ],
)
def test_a_module_and_its_spec_say_the_same_of_what_it_refuses(directory, name):
    found = []
    for path in (f"generated/{name}.py", f"specs/{directory}/{name}.toml"):
        (target,) = targets(ROOT / path)
        asked = target.request
        table = Table.from_json(asked.table) if asked.table else None
        limits = (asked.units, asked.blocks, asked.grad_units, asked.batched)
        found.append((limits, table))
    assert found[0] == found[1]


def test_a_file_that_says_nothing_of_itself(file):
    with pytest.raises(UsageError) as error:
        targets(file)
    assert str(error.value) == (
        f"{file} does not say what it computes: its docstring does not list a, b and"
        f" out\n  allowed: {file}:FUNCTION with --shape\n"
        "  hint: functions of the file: reference, right, f"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff", "is not UTF-8 text"),
        (b"def f(:\n", r"bad\.py:1 is not Python: "),
        (b"x = '\0'\n", "is not Python: "),
    ],
)
@pytest.mark.parametrize("suffix", ["", ":f"])
def test_files_that_cannot_be_read(tmp_path, content, reason, suffix):
    path = tmp_path / "bad.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=reason):
        targets(f"{path}{suffix}", shapes=("f16[2]",))


def test_a_reference_goes_with_a_function_alone(spec):
    for name in (spec, ROOT / "generated" / "fp16_128x128.py"):
        with pytest.raises(UsageError, match="--reference goes with"):
            targets(name, reference="right")


def test_every_problem_of_every_spec_is_told(tmp_path, spec):
    (tmp_path / "bad.toml").write_text(SPEC.replace("64", "65").replace("128", "7"))
    with pytest.raises(SpecError) as error:
        targets(tmp_path)
    assert len(error.value.problems) >= 2
