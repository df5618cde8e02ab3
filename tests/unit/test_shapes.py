"""The sizes that `--shape` names."""

import pytest

from kgen.errors import UsageError
from kgen.shapes import parse_batch, parse_operands, parse_sizes


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("256,512,1024", (256, 512, 1024)),
        ("1, 2, 3", (1, 2, 3)),
        ("256,512", None),
        ("256x512x1024", None),
        ("64x256,512,1024", None),
        ("-1,2,3", None),
        ("f16[1,2,3]", None),
    ],
)
def test_sizes_of_a_matmul(text, sizes):
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        ("64x256,512,1024", ((64,), (256, 512, 1024))),
        ("8 x 12 x 1,2,3", ((8, 12), (1, 2, 3))),
        ("1,2,3", ((), (1, 2, 3))),
        ("x1,2,3", None),
        ("2x1,2", None),
        ("2,1x2,3", None),
    ],
)
def test_batches_of_sizes(text, batch):
    assert parse_batch(text) == batch


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("float16[256,512]", ("float16[256,512]",)),
        (
            "f16[256, 512]  bf16[512,128]",
            ("float16[256,512]", "bfloat16[512,128]"),
        ),
        ("f32[8];i32[2,2];u8[]", ("float32[8]", "int32[2,2]", "uint8[]")),
        ("f8_e4m3fn[ 64 , 64 ]", ("float8_e4m3fn[64,64]",)),
        ("bool[4]bool[4]", ("bool[4]", "bool[4]")),
    ],
)
def test_operands(text, operands):
    assert parse_operands(text) == operands


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "is neither three sizes nor a list of operands"),
        ("256,512", "is neither three sizes nor a list of operands"),
        ("float16", "is neither three sizes nor a list of operands"),
        ("float16[2,]", "is neither three sizes nor a list of operands"),
        ("float16[-2]", "is neither three sizes nor a list of operands"),
        ("half[2]", "'half' is not a dtype"),
    ],
)
def test_what_is_no_operand(text, found):
    with pytest.raises(UsageError) as error:
        parse_operands(text)
    assert found in str(error.value)
    assert "allowed: " in str(error.value)
