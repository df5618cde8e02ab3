"""`kgen.lock` as data: it comes from a repository, where anybody may have written it."""

import tomllib

import pytest

from kgen.errors import FileError
from kgen.vendor import lockfile
from kgen.vendor.lockfile import Entry, Kind, Lock, Settings

HEAD = 'version = 1\nkgen = "0.1.0"\njax = ">= 0.11.2, < 0.13"\n'
SHA = "0123456789abcdef" * 4


def entry(path, kind=Kind.MODULE, sha256=SHA):
    digest = None if kind is Kind.SPEC else "0123456789ab"
    return Entry(
        path=path,
        kind=kind,
        sha256=sha256,
        spec="specs/gemm.toml",
        spec_digest=digest,
        template_digest=digest,
    )


LOCK = Lock(
    kgen="0.1.0",
    jax=">= 0.11.2, < 0.13",
    vendor=Settings(package="my.lib", header=SHA),
    files=(
        entry("tests/test_gemm.py", Kind.TEST),
        entry("gemm.py"),
        entry("specs/a/größe.toml", Kind.SPEC),
    ),
)


def refused(directory, text):
    """What is wrong with a lock file of that text, and the hint."""
    path = directory / "kgen.lock"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FileError) as caught:
        lockfile.read(directory)
    assert path.exists()
    message, _, hint = str(caught.value).partition("\n")
    return message.removeprefix(f"{path}"), hint.strip().replace(f"{directory}", "DEST")


def test_there_is_none(tmp_path):
    assert lockfile.read(tmp_path) is None
    assert lockfile.read(tmp_path / "missing") is None


def test_what_is_written_is_read(tmp_path):
    text = lockfile.write_text(LOCK)
    (tmp_path / "kgen.lock").write_text(text)
    found = lockfile.read(tmp_path)
    assert found.files == tuple(sorted(LOCK.files, key=lambda each: each.path))
    assert (found.vendor, found.kgen, found.jax) == (LOCK.vendor, LOCK.kgen, LOCK.jax)
    assert lockfile.write_text(found) == text


def test_the_text_does_not_depend_on_the_order():
    turned = LOCK.model_copy(update={"files": LOCK.files[::-1]})
    assert lockfile.write_text(turned) == lockfile.write_text(LOCK)


def test_the_text_is_plain_toml():
    document = tomllib.loads(lockfile.write_text(LOCK))
    assert document["version"] == 1
    assert document["vendor"] == {"package": "my.lib", "header": SHA}
    assert document["files"][0] == {
        "path": "gemm.py",
        "kind": "module",
        "sha256": SHA,
        "spec": "specs/gemm.toml",
        "spec_digest": "0123456789ab",
        "template_digest": "0123456789ab",
    }


def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path):
    text = lockfile.write_text(LOCK)
    crlf = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    (tmp_path / "kgen.lock").write_bytes(crlf)
    assert lockfile.write_text(lockfile.read(tmp_path)) == text
    assert lockfile.digest_of("a\r\nb\n") == lockfile.digest_of("a\nb\n")


REPAIR = "hint: restore it from git, or delete it and run `kgen vendor --update DEST`"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<<<<<<< HEAD\n" + HEAD, ":1: invalid TOML at column 1: invalid statement"),
        (b"\xff", ":1: byte 0xff at offset 0 is not UTF-8"),
        (HEAD + "x = 1\n", ":4: unknown key x"),
        ("version = 1\n", ": kgen is missing"),
        ('version = 1\nkgen = 1\njax = ""\n', ":2: kgen = 1 is not what kgen writes"),
        (HEAD + "files = 1\n", ":4: files = 1 is not what kgen writes"),
        (HEAD + '[[files]]\npath = "a.py"\n', ":4: files[0].kind is missing"),
    ],
)
def test_damaged(tmp_path, text, message):
    assert refused(tmp_path, text) == (message, REPAIR)


def test_of_a_newer_kgen(tmp_path):
    assert refused(tmp_path, 'version = 2\nkgen = "3.1"\nnew = [1]\n') == (
        " has format 2, and this kgen knows formats up to 1",
        "hint: use the kgen that wrote it: 3.1, or a newer one",
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "it has no version"),
        ('[metadata]\npython = "3.12"\n', "it has no version"),
        ('version = "1"\n', 'version = "1", where kgen writes 1'),
        ("version = 0\n", "version = 0, where kgen writes 1"),
    ],
)
def test_of_another_program(tmp_path, text, found):
    assert refused(tmp_path, text) == (f" is no lock file of kgen: {found}", REPAIR)


def test_a_kind_that_is_none(tmp_path):
    message, hint = refused(
        tmp_path, HEAD + '[[files]]\npath = "a.py"\nkind = "banana"\n'
    )
    assert message == ':6: files[0].kind = "banana" is not what kgen writes'
    assert hint == f"allowed: module, test, spec\n  {REPAIR}"


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("module", "../gemm.py"),
        ("module", "/etc/passwd.py"),
        ("module", "sub/gemm.py"),
        ("module", "gemm.sh"),
        ("module", "tests/test_gemm.py"),
        ("module", ""),
        ("module", "gemm.py\n"),
        ("module", "a b.py"),
        ("test", "tests/../test_gemm.py"),
        ("test", "tests/conftest.py"),
        ("spec", "specs/../../x.toml"),
        ("spec", "specs//x.toml"),
        ("spec", "/specs/x.toml"),
        ("spec", "pyproject.toml"),
        ("spec", "specs/a\\u0007.toml"),
    ],
)
def test_places_where_kgen_writes_nothing(tmp_path, kind, path):
    shown = path.replace("\n", "\\n")
    text = (
        f'{HEAD}\n[[files]]\npath = "{shown}"\nkind = "{kind}"\n'
        f'sha256 = "{SHA}"\nspec = "specs/x.toml"\n'
    )
    assert refused(tmp_path, text) == (
        f':5: files[0].path = "{shown}": kgen writes no {kind} there',
        REPAIR,
    )


def test_one_place_twice(tmp_path):
    twice = LOCK.model_copy(update={"files": (entry("gemm.py"), entry("Gemm.py"))})
    assert refused(tmp_path, lockfile.write_text(twice)) == (
        " names gemm.py twice",
        REPAIR,
    )


def test_a_link(tmp_path):
    (tmp_path / "real").write_text(lockfile.write_text(LOCK))
    (tmp_path / "kgen.lock").symlink_to("real")
    with pytest.raises(FileError, match="is a symbolic link"):
        lockfile.read(tmp_path)
