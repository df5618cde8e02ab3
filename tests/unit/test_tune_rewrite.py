"""A winner is put into a spec, whose comments and layout stay."""

import pytest

from kgen.errors import FileError
from kgen.tune.rewrite import ByHandError, put, rewritten

SPEC = """\
#:schema ./kgen.schema.json

[kernel]
name = "gemm"  # its name
op = "matmul"

[tile]  # the tile
m = 128   # rows
n = 0x80

[raster]
# wide enough
width = 4  # tiles

[tune]
tile.m = [64, 128]
"""


def test_values_are_replaced_added_and_removed():
    values = {
        "tile.m": 64,
        "tile.k": 128,
        "schedule.warp_specialized": True,
        "schedule.split": "n",
        "raster.width": None,
        "raster.order": None,
        "cluster.m": None,
    }
    assert rewritten(SPEC, values) == """\
#:schema ./kgen.schema.json

[kernel]
name = "gemm"  # its name
op = "matmul"

[tile]  # the tile
m = 64   # rows
n = 0x80
k = 128

# wide enough
# tiles

[tune]
tile.m = [64, 128]

[schedule]
warp_specialized = true
split = "n"
"""


def test_nothing_changes_if_all_is_there():
    assert rewritten(SPEC, {"tile.m": 128, "raster.width": 4}) == SPEC


def test_dotted_keys_stay_dotted():
    text = 'tile.m = 64 # rows\n\n[kernel]\nname = "a"\n'
    assert rewritten(text, {"tile.n": 128, "tile.m": 128}) == (
        'tile.m = 128 # rows\ntile.n = 128\n\n[kernel]\nname = "a"\n'
    )


def test_line_ends_and_a_missing_one_are_respected():
    text = '[kernel]\r\nname = "a"\r\n\r\n[tile]\r\nm = 64'
    assert rewritten(text, {"tile.n": 8, "cluster.m": 2}) == (
        '[kernel]\r\nname = "a"\r\n\r\n[tile]\r\nm = 64\r\nn = 8\r\n'
        "\r\n[cluster]\r\nm = 2\r\n"
    )


def test_comments_of_what_is_removed_stay():
    text = (
        '[kernel]  # what\nname = "a"\n[raster]  # in bands\n  # wide\n'
        '  order = "m"  # down\n  width = 4\n[tile]\nm = 64  # rows\n'
    )
    values = {"raster.order": None, "raster.width": None, "tile.m": 128}
    assert rewritten(text, values) == (
        '[kernel]  # what\nname = "a"\n# in bands\n  # wide\n  # down\n'
        "[tile]\nm = 128  # rows\n"
    )


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"tile.m": 128}, "tile = { m = 128, n = 64, k = 32 }  # the tile\n"),
        ({"tile.m": None}, "tile = { n = 64, k = 32 }  # the tile\n"),
        ({"tile.n": None}, "tile = { m = 64, k = 32 }  # the tile\n"),
        ({"tile.k": None}, "tile = { m = 64, n = 64 }  # the tile\n"),
        ({"tile.m": None, "tile.k": None}, "tile = { n = 64 }  # the tile\n"),
        (
            {"tile.o": 8, "tile.n": None, "tile.p": 16},
            "tile = { m = 64, k = 32, o = 8, p = 16 }  # the tile\n",
        ),
        ({"tile.m": None, "tile.n": None, "tile.k": None}, "# the tile\n"),
        (
            {"tile.m": None, "tile.n": None, "tile.k": None, "tile.o": "n"},
            'tile = { o = "n" }  # the tile\n',
        ),
    ],
)
def test_inline_tables_stay_inline(values, line):
    text = "tile = { m = 64, n = 64, k = 32 }  # the tile\nraster = {}\n"
    assert rewritten(text, values) == line + "raster = {}\n"


def test_an_empty_inline_table_takes_a_key():
    assert rewritten("tile = {}\n", {"tile.m": 64}) == "tile = { m = 64 }\n"
    assert rewritten("a = {b={}}\n", {"a.b.c": 1}) == "a = {b={ c = 1 }}\n"
    assert rewritten("a = {b={c=1},d=2}\n", {"a.b.c": None}) == "a = {d=2}\n"


@pytest.mark.parametrize(
    ("text", "values", "key"),
    [
        ("[tile]\nm = [64, 128]\n", {"tile.m": 64}, "tile.m"),
        ("tile = { m.a = 1 }\n", {"tile.m.a": None}, "tile.m.a"),
        ("tile = { m.a = 1 }\n", {"tile.m.b": 2}, "tile.m.b"),
    ],
)
def test_what_a_program_cannot_write_is_told(text, values, key):
    with pytest.raises(ByHandError) as told:
        rewritten(text, values)
    assert str(told.value).startswith(f"{key} cannot be put into its text by a program")


def test_the_file_is_replaced_whole(tmp_path):
    path = tmp_path / "gemm.toml"
    content = b"\xef\xbb\xbf" + SPEC.encode()
    path.write_bytes(content)
    assert put(path, content, {"tile.m": 64}) is True
    assert path.read_bytes() == content.replace(b"m = 128 ", b"m = 64 ")
    assert put(path, path.read_bytes(), {"tile.m": 64}) is False
    assert [p.name for p in tmp_path.iterdir()] == ["gemm.toml"]


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "gemm.toml"
    path.write_text(SPEC + "# mine\n")
    with pytest.raises(FileError, match=r"changed while its kernel was tuned"):
        put(path, SPEC.encode(), {"tile.m": 64})
    assert path.read_text() == SPEC + "# mine\n"
    path.unlink()
    with pytest.raises(FileError, match="cannot read"):
        put(path, SPEC.encode(), {"tile.m": 64})
