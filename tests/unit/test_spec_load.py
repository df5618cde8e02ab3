"""Reading spec files: bytes, places, digests, several files at once."""

import contextlib
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.errors import FileError, KgenError, SpecError, UsageError
from kgen.spec.document import MAX_BYTES
from kgen.spec.load import find_specs, load_all, load_file
from kgen.spec.source import SourcedSpec

pytestmark = pytest.mark.without_jax

SPEC = '[kernel]\nname = "gemm"\nop = "matmul"\n'
FULL = """# A family
[kernel]
name = "gemm_{dtypes.a}_{tile.n}"
op = "matmul"
doc = \"\"\"
C = A @ B in {dtypes.a}: "quoted", {{ braces }}
\"\"\"

[tile]
m = 128

[schedule]
dimension_semantics = ["parallel", "parallel", "sequential"]

[transforms]
a = { swizzle = 64, tiling = [8, 32] }

[test]
shapes = [[256, 256, 512], [16896, 512, 640]]

[matrix]
dtypes.a = ["float16", "bfloat16"]
tile.n = [64, 128]
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """Returns a function that writes `spec.toml` in the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(content: str | bytes, name: str = "spec.toml") -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refusal(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_file(path)
    return str(caught.value)


def test_lines_of_a_variant_lead_to_the_matrix(spec):
    first, *_, last = load_file(spec(FULL))
    assert (first.name, last.name) == ("gemm_float16_64", "gemm_bfloat16_128")
    assert last.spec.tile.n == 128
    assert last.line_of("kernel.name") == 3
    assert last.line_of("tile.m") == 10
    assert last.line_of("tile.n") == 23
    assert last.line_of("dtypes.a") == 22
    assert last.line_of("dtypes.b") == 22  # The closest table is the matrix's.
    assert last.line_of("transforms.a.swizzle") == 16
    assert last.line_of("pipeline.delay_release") is None
    assert not any(key.startswith("matrix") for key in last.lines)


def test_lines_of_matrix_values_that_stand_on_their_own(spec):
    text = SPEC.replace("gemm", "gemm_{tile.n}") + "[matrix]\ntile.n = [\n64,\n128]\n"
    first, second = load_file(spec(text))
    assert (first.line_of("tile.n"), second.line_of("tile.n")) == (6, 7)


@pytest.mark.timeout(20)
def test_a_matrix_that_is_too_large_is_not_expanded(spec):
    values = list(range(1, 129))
    keys = ("tile.m", "tile.n", "tile.k", "store.n")
    text = SPEC + "[matrix]\n" + "".join(f"{key} = {values}\n" for key in keys)
    assert refusal(spec(text)) == (
        "spec.toml:4: KG009 [matrix] has 268435456 variants\n"
        "  allowed: at most 256\n"
        "  hint: split the file"
    )


@pytest.mark.timeout(20)
@pytest.mark.parametrize("values", [range(1, 99_999), [[n] for n in range(99_999)]])
def test_a_matrix_with_very_many_values_is_refused_at_once(spec, values):
    text = f"{SPEC}[matrix]\ntile.n = {[*values]}\n"
    assert refusal(spec(text)).startswith(
        f"spec.toml:4: KG009 [matrix] has {len(values)} variants\n"
        "  allowed: at most 256\n"
        "  hint: split the file"
    )


def test_digest_is_of_what_is_said_beyond_the_defaults(spec):
    (plain,) = load_file(spec(SPEC))
    said = b'{"kernel":{"name":"gemm","op":"matmul"}}'
    assert plain.digest == hashlib.sha256(said).hexdigest()
    same = '# C\nkernel = { op = "matmul", name = "g\\u0065mm" }\ntile.m = 128\n'
    assert load_file(spec(same))[0].digest == plain.digest
    assert load_file(spec(SPEC + "[tile]\nm = 64\n"))[0].digest != (plain.digest)


def test_variant_has_the_digest_of_the_same_spec_alone(spec):
    family = spec(
        SPEC.replace("gemm", "gemm_{tile.n}") + "[matrix]\ntile.n = [64, 256]\n"
    )
    alone = spec(SPEC.replace("gemm", "gemm_256") + "[tile]\nn = 256\n", "alone.toml")
    assert load_file(family)[1].digest == load_file(alone)[0].digest


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_byte_order_mark_and_line_ends_change_nothing(spec, mark, end):
    expected = load_file(spec(FULL))
    assert load_file(spec(mark + FULL.replace("\n", end))) == expected


def test_lone_carriage_return_is_refused(spec):
    assert refusal(spec(SPEC.replace("\n", "\r"))).startswith(
        "spec.toml:1: KG001 invalid TOML at column 9: expected newline"
    )


def test_a_module_given_as_a_spec(tmp_path):
    module = tmp_path / "gemm.py"
    module.write_text("import jax\n")
    with pytest.raises(SpecError, match="hint: a spec is a TOML file; `kgen verify`"):
        load_file(module)


def test_not_utf_8(spec):
    assert refusal(spec(SPEC.encode() + 'doc = "größe"'.encode("latin-1"))) == (
        "spec.toml:4: KG002 byte 0xf6 at offset 46 is not UTF-8\n"
        "  hint: save the file as UTF-8"
    )
    assert refusal(spec(SPEC.encode("utf-16"))).startswith(
        "spec.toml:1: KG002 byte 0xff at offset 0 is not UTF-8"
    )


def test_size_is_limited(spec):
    filler = "#" * (MAX_BYTES - len(SPEC))
    assert load_file(spec(SPEC + filler))[0].name == "gemm"
    assert refusal(spec(SPEC + filler + "#")) == (
        "spec.toml: KG002 the file has more than 1048576 bytes"
    )
    with Path("/dev/zero").open() as endless:
        assert "KG002" in refusal(Path(f"/dev/fd/{endless.fileno()}"))


def test_doc_is_limited(spec):
    assert load_file(spec(SPEC + f'doc = "{"x" * 2000}"\n'))
    assert refusal(spec(SPEC + f'doc = "{"x" * 2001}"\n')) == (
        "spec.toml:4: KG005 kernel.doc has 2001 characters\n"
        "  allowed: a string of at most 2000 characters"
    )


def test_too_many_shapes(spec):
    text = SPEC + f"[test]\nshapes = {[[64, 64, 64]] * 33}\n"
    assert refusal(spec(text)) == (
        "spec.toml:5: KG005 test.shapes = "
        "[[64, 64, 64], [64, 64, 64], [64, 64, 64], [64, 64, 64], ..."
        " has 33 elements\n"
        "  allowed: an array of at most 32 elements, each an array of 3 elements,"
        " each an integer from 1 to 4294967296"
    )


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 100_000,
        "x = " + "[" * 400 + "]" * 400,
        ".".join("x" * 400) + " = 1",
        "x = " + "{ x = " * 400 + "1" + " }" * 400,
    ],
    ids=["open", "array", "dotted", "inline"],
)
def test_deep_nesting(spec, text):
    assert refusal(spec(text)) == (
        "spec.toml: KG001 arrays or tables are nested too deeply"
    )


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "part", ["a-1", '"a b"', "'.'", "a . b"], ids=["bare", "quoted", "literal", "gap"]
)
def test_a_key_of_very_many_parts(spec, part):
    # What reads TOML would take hundreds of gigabytes.
    parts = ".".join([part] * 50_000)
    for text in (f"{SPEC}[{parts}]\n", f"{SPEC}{parts} = 1\n"):
        assert refusal(spec(text)) == (
            "spec.toml: KG001 arrays or tables are nested too deeply"
        )


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["a", "a ", "'", '"', ".", "a..", '""'])
def test_long_lines_are_searched_in_no_time(spec, piece):
    comment = piece * (MAX_BYTES // 4)
    assert load_file(spec(f"{SPEC}# {comment}\n"))[0].name == "gemm"


def test_file_name_that_could_end_a_comment(spec):
    path = spec(SPEC, "a\nimport os.toml")
    assert refusal(path) == (
        "a\\nimport os.toml: KG002 the file's name is not printable"
    )


@pytest.mark.parametrize("load", [load_file, lambda path: find_specs([path])])
def test_missing_file(spec, load):
    with pytest.raises(FileError, match=r"^no/such\.toml: no such file or directory$"):
        load(Path("no/such.toml"))


def test_directory_for_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").mkdir()
    with pytest.raises(FileError, match=r"^spec\.toml: is a directory$"):
        load_file(Path("spec.toml"))


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.toml")
    for path in (*find_specs([Path()]), Path("/dev/zero")):
        with pytest.raises(FileError, match=f"^{path}: not a regular file$"):
            load_file(path)


def test_what_a_shell_hands_over_is_read():
    reader, writer = os.pipe()
    os.write(writer, SPEC.encode())
    os.close(writer)
    with os.fdopen(reader):
        assert load_file(Path(f"/dev/fd/{reader}"))[0].name == "gemm"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable(spec):
    path = spec(SPEC, "specs/spec.toml")
    path.chmod(0)
    with pytest.raises(FileError, match=r"^specs/spec\.toml: permission denied$"):
        load_file(path)
    path.parent.chmod(0)
    try:
        with pytest.raises(FileError, match=r"^specs: permission denied$"):
            find_specs([Path("specs")])
    finally:
        path.parent.chmod(0o700)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_impossible_file_names(spec, name):
    with pytest.raises(KgenError):
        find_specs([Path(name)])
    with pytest.raises(KgenError):
        load_file(Path(name))


def test_find_specs_in_directories(spec):
    for name in [
        "specs/b.toml",
        "specs/a/z.toml",
        "specs/B.toml",
        "specs/notes.md",
        "specs/.hidden.toml",
        "specs/.git/c.toml",
        "other.spec",
    ]:
        spec(SPEC, name)
    Path("specs/d.toml").mkdir()
    Path("specs/link.toml").symlink_to("b.toml")
    paths = [Path("other.spec"), Path("specs"), Path("specs/../specs/b.toml")]
    assert [str(path) for path in find_specs(paths)] == [
        "other.spec",
        "specs/B.toml",
        "specs/a/z.toml",
        "specs/b.toml",
    ]


def test_find_specs_follows_links(spec, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "deep").mkdir()
    for name in ("c.toml", "deep/d.toml"):
        (elsewhere / name).write_text(SPEC)
    spec(SPEC, "specs/z/a.toml")
    for name, target in {
        "specs/b.toml": "z/a.toml",  # The same file again.
        "specs/circle": ".",
        "specs/far": elsewhere,
        "specs/far.toml": elsewhere,  # A directory, whatever its name.
        "specs/near": "z",  # Found by its own path.
        "specs/.hidden": elsewhere,
    }.items():
        Path(name).symlink_to(target)
    (elsewhere / "back").symlink_to(Path("specs").absolute())
    found = [str(path) for path in find_specs([Path("specs")])]
    assert found == ["specs/b.toml", "specs/far/c.toml", "specs/far/deep/d.toml"]


def test_find_specs_finds_none(spec, tmp_path):
    with pytest.raises(UsageError, match=r"^no spec is given$"):
        find_specs([])
    Path("empty").mkdir()
    message = r"^empty: no specs \(\*\.toml\) in this directory$"
    with pytest.raises(UsageError, match=message):
        find_specs([Path("empty")])


def test_load_all_tells_the_problems_of_every_file(spec):
    good = spec(SPEC, "good.toml")
    bad = spec(SPEC.replace("gemm", "a b"), "bad.toml")
    worse = spec("x = ", "worse.toml")
    again = spec("\n" + SPEC.replace("gemm", "GEMM"), "again.toml")
    with pytest.raises(SpecError) as caught:
        load_all([good, bad, worse, again])
    assert [(p.path, p.line, p.code) for p in caught.value.problems] == [
        ("bad.toml", 2, "KG007"),
        ("worse.toml", 1, "KG001"),
        ("again.toml", 3, "KG008"),
    ]


def test_load_all_refuses_a_name_that_is_taken(spec):
    paths = [
        spec(SPEC, "a.toml"),
        spec(SPEC, "sub/a.toml"),
        spec(SPEC.replace("gemm", "Gemm"), "c.toml"),
    ]
    with pytest.raises(SpecError) as caught:
        load_all(paths)
    hint = "\n  hint: each name makes one file, on some systems whatever its case"
    assert str(caught.value) == (
        'sub/a.toml:2: KG008 kernel.name = "gemm" is also the name of a.toml:2'
        f"{hint}\n"
        'c.toml:2: KG008 kernel.name = "Gemm" differs only by case from "gemm"'
        f" of a.toml:2{hint}"
    )


def test_load_all_keeps_the_order(spec):
    paths = [
        spec(SPEC.replace("gemm", name), f"{name}.toml") for name in ("b", "c", "a")
    ]
    assert [sourced.name for sourced in load_all(paths)] == ["b", "c", "a"]


@settings(max_examples=1000, deadline=None)
@given(st.data())
def test_mutated_specs_never_crash(tmp_path_factory, data):
    content = bytearray(FULL.encode())
    # Mutations in whole tokens get past the TOML parser more often than bytes do.
    tokens = [
        *(bytes([byte]) for byte in range(256)),
        *b"true nan 0x1 1.5 [] {} [[a]] [matrix] tile. \"\"\" ''' 1979-05-27".split(),
        *b"{tile.n} {{ }} \\n \\u0000 kernel name tile.n= ,".split(),
    ]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 3))
        content[at : at + length] = data.draw(st.sampled_from(tokens))
    path = tmp_path_factory.getbasetemp() / "mutated.toml"
    path.write_bytes(content)
    # Anything but a KgenError fails the test.
    with contextlib.suppress(KgenError):
        specs = load_file(path)
        assert specs
        assert all(isinstance(sourced, SourcedSpec) for sourced in specs)
