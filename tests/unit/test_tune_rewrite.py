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


def test_values_of_inline_tables_are_replaced_only():
    text = "tile = { m = 64, n = 64 }\n"
    assert rewritten(text, {"tile.m": 128}) == "tile = { m = 128, n = 64 }\n"
    for values in ({"tile.k": 64}, {"tile.m": None}):
        with pytest.raises(ByHandError, match="cannot be rewritten by a program"):
            rewritten(text, values)


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
